// SPDX-License-Identifier: Apache-2.0
// How the optimizer sees the flat buffers: one segment a tensor, walked in chunks of a fixed
// length.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/views.hpp"

namespace espalier {

enum class WeightDecay { apply, none };

/// One tensor in the flat buffers, in elements.
struct OptimizerSegment {
  int64_t offset = 0;
  int64_t size = 0;
  WeightDecay decay = WeightDecay::apply;
};

/// A piece of a segment.
struct OptimizerChunk {
  int64_t offset;
  int64_t size;
  int64_t segment;
  bool decays;
};

/// Elements of a chunk at most: small enough that many threads share the work, large enough that
/// starting one costs nothing.
constexpr int64_t kChunkElements = 1 << 15;

/// Every segment cut from its own start, so that the chunks of one do not depend on the others.
/// Errors  Internal if a segment does not lie in [0, flat_size)
std::vector<OptimizerChunk> cut_in_chunks(const std::vector<OptimizerSegment>& segments,
                                          int64_t flat_size);

/// The same where kernels can read it.
Buffer<OptimizerChunk> chunk_buffer(const std::vector<OptimizerChunk>& chunks);

}  // namespace espalier
