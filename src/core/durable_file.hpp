// SPDX-License-Identifier: Apache-2.0
// Files and folders that become visible whole and stay after a loss of power: written aside,
// flushed, renamed, and the folder flushed behind them.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

// Every function here throws a DataError that names the path, what failed and what to do.

/// fsync of a file, or of the entries of a folder. File systems that cannot flush a folder order
/// renames themselves: there it does nothing.
void flush_file(const std::string& path);
void flush_folder(const std::string& path);

/// rename, then fsync of the folder of `to`. Files and folders; both on one file system.
void rename_durably(const std::string& from, const std::string& to);

/// fsync of the file `part`, then rename_durably(part, path).
void publish_file(const std::string& part, const std::string& path);

/// Takes disk space for the first `bytes` of a file and leaves its size; does nothing where the
/// file system cannot.
void reserve_space(const std::string& path, int64_t bytes);

/// Throws if this process may not write files as long as `bytes` (ulimit -f).
void require_file_size_allowed(const std::string& path, int64_t bytes);

/// Writes a file of this content: PATH.part first, flushed and renamed. An old file of the name
/// stays whole until then, and PATH.part is removed when something fails.
void write_text_file(const std::string& path, const std::string& text);

/// The content of a regular file; refused, before memory is taken, above `most_bytes`.
std::string read_text_file(const std::string& path, int64_t most_bytes);

/// Throws unless the folder of `path` exists and `path` is not itself a folder.
void require_writable_place(const std::string& path);

/// Throws unless `path` is a regular file that may be read. Returns its size in bytes.
int64_t require_readable_file(const std::string& path);

/// Throws the DataError "PATH: cannot ACTION (WORDS); REMEDY" for a code of errno.
[[noreturn]] void fail_file(const std::string& path, const std::string& action, int error);

}  // namespace espalier
