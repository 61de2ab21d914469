// SPDX-License-Identifier: Apache-2.0
// Cuts tensors into chunks.
#include "optim/segment.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {

std::vector<OptimizerChunk> cut_in_chunks(const std::vector<OptimizerSegment>& segments,
                                          int64_t flat_size) {
  std::vector<OptimizerChunk> chunks;
  for (size_t s = 0; s < segments.size(); ++s) {
    const OptimizerSegment& segment = segments[s];
    ESPALIER_REQUIRE(
        segment.offset >= 0 && segment.size >= 0 && segment.offset + segment.size <= flat_size,
        "optimizer segment {} is [{}, {}) of {} elements", s, segment.offset,
        segment.offset + segment.size, flat_size);
    for (int64_t first = 0; first < segment.size; first += kChunkElements)
      chunks.push_back({segment.offset + first, std::min(kChunkElements, segment.size - first),
                        static_cast<int64_t>(s), segment.decay == WeightDecay::apply});
  }
  return chunks;
}

Buffer<OptimizerChunk> chunk_buffer(const std::vector<OptimizerChunk>& chunks) {
  Buffer<OptimizerChunk> buffer(Kokkos::ViewAllocateWithoutInitializing("optimizer_chunks"),
                                chunks.size());
  const auto mirror = Kokkos::create_mirror_view(buffer);
  for (size_t i = 0; i < chunks.size(); ++i) mirror(i) = chunks[i];
  Kokkos::deep_copy(buffer, mirror);
  return buffer;
}

}  // namespace espalier
