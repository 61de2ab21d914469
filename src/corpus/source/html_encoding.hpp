// SPDX-License-Identifier: Apache-2.0
// The encoding of a web page, found as browsers do, and its text as UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

bool is_known_encoding(const std::string& name);

/// What a page says its encoding is: by a byte order mark, <meta charset>, <meta http-equiv> or
/// an XML declaration among its first 4,096 bytes. Empty if it says nothing.
/// Source    WHATWG HTML, "prescan a byte stream", without its rarest cases
std::string declared_encoding(std::string_view page);

/// Turns a page into UTF-8 without a byte order mark. Broken sequences become U+FFFD; their
/// number is returned.
/// Errors    Internal unless is_known_encoding(name)
int64_t decode_page(std::string_view page, const std::string& name, std::string& utf8);

}  // namespace espalier
