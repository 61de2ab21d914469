// SPDX-License-Identifier: Apache-2.0
// Private to this room: messages of any number of bytes, though MPI counts in int.
#pragma once

#include <mpi.h>

#include <cstdint>

namespace espalier {

/// count() elements of get() are `bytes` bytes. Operations that are under way keep what they need,
/// so the object may go as soon as they have been started.
class ByteType {
 public:
  /// Beyond `limit` bytes the type is one element made of blocks of `limit`.
  ByteType(int64_t bytes, int64_t limit);
  ~ByteType();
  ByteType(const ByteType&) = delete;
  ByteType& operator=(const ByteType&) = delete;

  int count() const { return count_; }
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_BYTE;
  int count_ = 0;
};

}  // namespace espalier
