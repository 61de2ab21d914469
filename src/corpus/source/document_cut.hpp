// SPDX-License-Identifier: Apache-2.0
// Where long text is cut into documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

/// Where to cut a text longer than `most` bytes: in (most / 2, most], after the last blank line
/// there, else after the last line end, else at most bytes, but never inside a UTF-8 character.
/// Shape     most >= 8, text.size() > most
size_t find_document_cut(std::string_view text, size_t most);

/// Where a border at byte `at` of a plain file of `file_bytes` bytes is moved so that two parts
/// meet between documents: behind the first blank line at or after it, else behind the first line
/// end, both within `window` bytes, else before the character there. Never decreases as `at` grows.
/// Shape     window >= 4
/// Errors    DataError as TextReader
int64_t move_border(const std::string& path, int64_t file_bytes, int64_t at, int64_t window);

}  // namespace espalier
