// SPDX-License-Identifier: Apache-2.0
// Paths with * ? [ ] and ** as the files and folders that they match.
#pragma once

#include <string>
#include <vector>

namespace espalier {

/// Has the path one of * ? [ in it?
bool is_pattern(const std::string& path);

/// What matches, sorted by bytes. `*`, `?` and `[...]` stand for parts of one name as in the
/// shell; a whole name `**` stands for any number of folders, none included. Hidden names match
/// only where the pattern spells their dot. Each folder is entered once, whatever links lead to it.
/// Errors    std::filesystem::filesystem_error for folders that cannot be read
std::vector<std::string> match_pattern(const std::string& pattern);

}  // namespace espalier
