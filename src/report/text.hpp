// SPDX-License-Identifier: Apache-2.0
// Foreign text made safe for a page: encoding, HTML, JSON inside a script element.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace espalier {

/// Bytes that are not UTF-8 become U+FFFD, and so do control characters other than tab and line
/// feed (a byte-level model may well write them).
std::string clean_text(const std::string& bytes);

/// clean_text, with & < > " ' as entities: for element content and quoted attributes.
std::string escape_html(const std::string& bytes);

/// JSON that may stand inside <script>: no character in it can end the element.
std::string script_json(const nlohmann::ordered_json& value);

/// The file's bytes, or nothing if there is no such file.
/// Errors  DataError if it exists but cannot be read
std::optional<std::string> read_if_there(const std::string& path);

}  // namespace espalier
