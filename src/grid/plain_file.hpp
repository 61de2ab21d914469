// SPDX-License-Identifier: Apache-2.0
// A file of plain bytes by MPI-IO, without any format: what benchmarks compare with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grid/comm.hpp"

namespace espalier {

/// One file that all ranks of a Comm have open.
///
/// Collective  open and close (constructor, close(), destructor), sync(), ..._all; write_at and
///             read_at are each rank's own
/// Counts      bytes, any number: one MPI call takes at most 1 GiB
/// Errors      LaunchError with MPI's text; Internal if a file ends before a read does
class PlainFile {
 public:
  enum class Access { read, write };  ///< write: made new, what had the name is cut to nothing
  PlainFile(const Comm& comm, const std::string& path, Access access,
            const std::vector<std::string>& hints = {});
  /// Closes without looking at the result; while an exception unwinds it does nothing, since the
  /// other ranks may never come.
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  void write_at(int64_t offset, const void* data, int64_t bytes);
  void read_at(int64_t offset, void* data, int64_t bytes);
  /// Every rank calls as often: pieces are counted by the rank with the most bytes.
  void write_at_all(int64_t offset, const void* data, int64_t bytes);
  void read_at_all(int64_t offset, void* data, int64_t bytes);
  /// All that was written is on the disk.
  void sync();
  void close();

 private:
  int64_t rounds(int64_t bytes) const;

  const Comm& comm_;
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
  int exceptions_at_start_ = 0;
};

}  // namespace espalier
