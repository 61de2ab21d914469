// SPDX-License-Identifier: Apache-2.0
// Private to this room: data of slabs where the host can touch it. HDF5, checksums and MPI want
// host memory, and slabs may lie on a device.
#pragma once

#include <cstdint>
#include <vector>

#include "device/buffer.hpp"

namespace espalier {

/// `bytes` at `from` go to host memory at `to`.
struct HostCopy {
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
};

/// All of them, as what was given to the device so far leaves them; waits once, at the end.
void copy_to_host(const std::vector<HostCopy>& copies);

/// Pinned memory that is taken once and kept; none where all data is host memory.
class HostPieces {
 public:
  struct Piece {
    const void* data = nullptr;
    int64_t bytes = 0;
  };
  /// Of pieces on a device, `data` points to copies afterwards, which live until the next call.
  void fetch(std::vector<Piece>& pieces);
  const void* fetch(const void* data, int64_t bytes);

  /// Host memory for what is to stand at `data`; `data` itself where that is host memory.
  void* room_for(void* data, int64_t bytes);
  /// Brings what was put there to `data`, and waits.
  void store(void* data, int64_t bytes);

 private:
  char* reserve(int64_t bytes);
  PinnedBuffer<char> memory_;
};

}  // namespace espalier
