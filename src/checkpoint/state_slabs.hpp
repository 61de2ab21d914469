// SPDX-License-Identifier: Apache-2.0
// Slabs of the training state in memory: which of them a rank writes, copied or where they stand,
// and where it reads them to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/model_file.hpp"
#include "device/buffer.hpp"

namespace espalier {

/// A part of a logical tensor that this rank reads: a hyperslab, contiguous in memory.
struct TensorTarget {
  std::string name;
  Shape offset, extent;
  void* data = nullptr;
  StoredType type = StoredType::fp32;  // of data
};
using TensorTargets = std::vector<TensorTarget>;

/// The same places for reading. `buffer` and what the slabs point into are the same memory.
TensorTargets targets_of(const TensorSlabs& slabs);

/// Puts "group/" before every name.
void add_group(TensorSlabs& slabs, const std::string& group);

/// Share `part` of `parts` of what several ranks hold alike, cut at rows, by bytes as even as rows
/// allow: together the shares are the slabs, and none overlaps another.
TensorSlabs share_of_slabs(const TensorSlabs& slabs, int64_t part, int64_t parts);

int64_t slab_bytes(const TensorSlabs& slabs);

/// The sum of the file's checksum over these slabs, by tensor.
std::map<std::string, uint64_t> sum_slabs(const TensorSlabs& slabs);

/// A copy of slabs in host memory: the state of one step, while training goes on. The memory is
/// taken once and kept for the next one.
class SlabSnapshot {
 public:
  /// Copies, from a device at the rate of its bus, and returns when it is done: from then on
  /// training may change the state. The slabs point into the snapshot afterwards, until the next
  /// take().
  const TensorSlabs& take(const TensorSlabs& slabs);
  int64_t bytes() const { return memory_.size(); }

 private:
  PinnedBuffer<char> memory_;
  TensorSlabs copies_;
};

}  // namespace espalier
