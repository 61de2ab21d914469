// SPDX-License-Identifier: Apache-2.0
// How the optimizer sees the flat buffers: segments that share their rules, of which each rank
// walks the parts that it owns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/partition.hpp"
#include "tensor/views.hpp"

namespace espalier {

enum class WeightDecay { apply, none };

/// A contiguous run of one tensor, in elements of the flat buffers.
struct OptimizerSegment {
  int64_t offset = 0;
  int64_t size = 0;  // a multiple of row
  WeightDecay decay = WeightDecay::apply;
  int64_t cell = 1;    // elements that the norm adds up as one; the last cell of a row may be short
  int64_t row = 1;     // elements of a row of the local tensor: cells start anew there
  bool counts = true;  // for the norm
  int64_t parameter = 0;  // index in the table
  /// Of the first element among all elements of the model, and from one row's first to the next
  /// one's: random numbers go by it.
  int64_t number = 0, row_step = 1;
};

/// One segment for each shard piece, in flat order; columns that are cut make no runs, so that such
/// a tensor is one segment. Empty pieces have none.
/// Errors  Internal if the pieces of a cut by columns differ in cell or counts
std::vector<OptimizerSegment> make_segments(const ParameterTable& table);

/// The part of a segment inside one owned range.
struct SegmentPart {
  int64_t flat = 0, compact = 0, size = 0;
  int64_t segment = 0;
  int64_t at(Indexing indexing) const { return indexing == Indexing::flat ? flat : compact; }
};

/// Segments cut at the borders of owned ranges, in flat order. Segments outside are left out.
/// Errors  Internal if ranges or segments overlap or are not in flat order, or if a range cuts a
/// row
std::vector<SegmentPart> owned_parts(const std::vector<OptimizerSegment>& segments,
                                     const std::vector<OwnedRange>& owned);

/// Elements of a chunk at most, longer rows apart: small enough that many threads share the work,
/// large enough that starting one costs nothing.
constexpr int64_t kChunkElements = 1 << 15;

}  // namespace espalier
