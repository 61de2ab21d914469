// SPDX-License-Identifier: Apache-2.0
// Private to this room: files that become visible whole and stay after a loss of power.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

/// fsync of `part`, rename to `path`, fsync of the folder. Throws DataError.
void publish_file(const std::string& part, const std::string& path);

/// Throws DataError unless the folder of `path` exists and `path` is not itself a folder.
void require_writable_place(const std::string& path);

/// Throws DataError unless `path` is a regular file. Returns its size in bytes.
int64_t require_readable_file(const std::string& path);

}  // namespace espalier
