// SPDX-License-Identifier: Apache-2.0
// Private to this room: one dataset of a file while slabs of it are written.
#pragma once

#include "checkpoint/host_pieces.hpp"
#include "checkpoint/slab.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

class DatasetWriter {
 public:
  /// All arguments must outlive it. Throws DataError, as write() does.
  DatasetWriter(hid_t file, const std::string& path, const std::string& name,
                const DatasetInfo& info, const FileOptions& options, H5Properties transfer,
                HostPieces& host);

  int64_t pieces(const Shape& extent) const;
  /// One piece of a slab, on the host or on a device, summed just before it is written, while it is
  /// on its way through the cache.
  void write(const Shape& offset, const Shape& extent, const void* data, int64_t piece);
  /// The two halves of write(), for data that another rank writes; in host memory.
  void add_to_sum(const SlabPiece& piece, const void* data);
  void write_unsummed(const SlabPiece& piece, const void* data);
  /// A rank's part in a collective transfer to which it brings nothing.
  void write_nothing();
  /// Of what was written so far.
  uint64_t sum() const { return sum_; }

 private:
  int64_t element_bytes() const;
  void transfer(const SlabSelection& selection, const void* data);

  const std::string &path_, &name_;
  const DatasetInfo& info_;
  const FileOptions& options_;
  H5Dataset dataset_;
  H5Type type_;
  H5Properties transfer_;
  HostPieces& host_;
  uint64_t seed_ = 0, sum_ = 0;
};

}  // namespace espalier
