// SPDX-License-Identifier: Apache-2.0
// Segments of the parameter table, and what of them lies in owned ranges.
#include "optim/segment.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

// The first piece's place decides: pieces of rows, and of vectors, follow each other.
void add_runs(std::vector<OptimizerSegment>& segments, const ParameterSpec& p, int64_t index) {
  const bool is_vector = p.shape.size() == 1;
  for (const ShardPiece& piece : p.pieces) {
    if (piece.count == 0) continue;
    OptimizerSegment s;
    s.row = is_vector ? piece.count : p.columns();
    s.offset = p.offset + piece.local_first * (is_vector ? 1 : s.row);
    s.size = is_vector ? piece.count : piece.count * s.row;
    s.decay = p.decay ? WeightDecay::apply : WeightDecay::none;
    s.cell = piece.cell;
    s.counts = piece.counts;
    s.parameter = index;
    s.row_step = s.row;
    s.number = p.number + piece.global_first * (is_vector ? 1 : s.row);
    segments.push_back(s);
  }
}

// Cells walk along each row, so all pieces must have the same ones.
void add_columns(std::vector<OptimizerSegment>& segments, const ParameterSpec& p, int64_t index) {
  if (p.size() == 0) return;
  const ShardPiece& first = p.pieces.front();
  ESPALIER_REQUIRE(p.pieces.size() == 1, "the columns of {} are cut in {} pieces", p.name,
                   p.pieces.size());
  segments.push_back({p.offset, p.size(), p.decay ? WeightDecay::apply : WeightDecay::none,
                      first.cell, p.columns(), first.counts, index, p.number + first.global_first,
                      p.shape[1]});
}

}  // namespace

std::vector<OptimizerSegment> make_segments(const ParameterTable& table) {
  std::vector<OptimizerSegment> segments;
  for (size_t i = 0; i < table.parameters.size(); ++i) {
    const ParameterSpec& p = table.parameters[i];
    const auto index = static_cast<int64_t>(i);
    if (p.split == Split::columns)
      add_columns(segments, p, index);
    else
      add_runs(segments, p, index);
  }
  return segments;
}

std::vector<SegmentPart> owned_parts(const std::vector<OptimizerSegment>& segments,
                                     const std::vector<OwnedRange>& owned) {
  std::vector<SegmentPart> parts;
  int64_t segment_end = 0, range_end = 0;
  for (const OptimizerSegment& s : segments) {
    ESPALIER_REQUIRE(s.offset >= segment_end && s.size > 0 && s.row > 0 && s.size % s.row == 0,
                     "optimizer segment [{}, {}) in rows of {}, behind one that ends at {}",
                     s.offset, s.offset + s.size, s.row, segment_end);
    segment_end = s.offset + s.size;
  }
  size_t at = 0;
  for (const OwnedRange& range : owned) {
    ESPALIER_REQUIRE(range.flat >= range_end && range.size >= 0 && range.compact >= 0,
                     "owned range [{}, {}) at {}, behind one that ends at {}", range.flat,
                     range.flat + range.size, range.compact, range_end);
    range_end = range.flat + range.size;
    while (at < segments.size() && segments[at].offset + segments[at].size <= range.flat) ++at;
    for (size_t i = at; i < segments.size() && segments[i].offset < range_end; ++i) {
      const OptimizerSegment& s = segments[i];
      const int64_t first = std::max(s.offset, range.flat);
      const int64_t last = std::min(s.offset + s.size, range_end);
      ESPALIER_REQUIRE((first - s.offset) % s.row == 0 && (last - s.offset) % s.row == 0,
                       "owned range [{}, {}) cuts a row of segment [{}, {}), rows of {}",
                       range.flat, range_end, s.offset, s.offset + s.size, s.row);
      if (first < last)
        parts.push_back(
            {first, range.compact + first - range.flat, last - first, static_cast<int64_t>(i)});
    }
  }
  return parts;
}

}  // namespace espalier
