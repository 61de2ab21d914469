// SPDX-License-Identifier: Apache-2.0
// How slabs are cut into pieces, summed, and laid out in a file.
#include "checkpoint/slab.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/file_properties.hpp"
#include "core/checksum.hpp"

namespace espalier {
namespace {

/// Indices in the dataset of a box's elements, in memory order.
std::vector<int64_t> elements(const Shape& shape, const Shape& offset, const Shape& extent) {
  std::vector<int64_t> found;
  Shape at(extent.size(), 0);
  for (int64_t n = shape_bytes(extent, 1); n > 0; --n) {
    int64_t index = 0;
    for (size_t d = 0; d < at.size(); ++d) index = index * shape[d] + offset[d] + at[d];
    found.push_back(index);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == extent[d];) at[d] = 0;
  }
  return found;
}

struct Box {
  Shape shape, offset, extent;
};
const std::vector<Box> kBoxes = {{{10}, {2}, {7}},
                                 {{6, 5}, {1, 2}, {4, 3}},
                                 {{6, 5}, {2, 0}, {3, 5}},
                                 {{6, 1}, {0, 0}, {6, 1}},
                                 {{4, 3, 5}, {1, 1, 1}, {2, 2, 3}},
                                 {{4, 3, 5}, {1, 0, 0}, {2, 3, 5}},
                                 {{4, 3, 5}, {2, 1, 0}, {1, 2, 5}},
                                 {{2, 2, 2, 3}, {0, 1, 0, 1}, {2, 1, 2, 2}}};

TEST(Slab, PiecesAreTheSlabInMemoryOrder) {
  for (const Box& b : kBoxes)
    for (const int64_t piece_bytes : {1, 4, 8, 12, 20, 40, 1000}) {
      std::vector<int64_t> found;
      for (int64_t p = 0; p < piece_count(b.extent, 4, piece_bytes); ++p) {
        const SlabPiece piece = cut_piece(b.offset, b.extent, 4, piece_bytes, p);
        EXPECT_EQ(piece.byte_offset, static_cast<int64_t>(found.size()) * 4);
        EXPECT_LE(shape_bytes(piece.extent, 4), std::max<int64_t>(4, piece_bytes));
        const std::vector<int64_t> some = elements(b.shape, piece.offset, piece.extent);
        found.insert(found.end(), some.begin(), some.end());
      }
      EXPECT_EQ(found, elements(b.shape, b.offset, b.extent))
          << shape_text(b.extent) << " of " << shape_text(b.shape) << ", " << piece_bytes;
    }
  EXPECT_EQ(piece_count({3, 0}, 4, 8), 0);
  EXPECT_EQ(piece_count({}, 4, 8), 1);
}

TEST(Slab, RunsAreNeighboursInTheFile) {
  for (const Box& b : kBoxes) {
    const std::vector<int64_t> found = elements(b.shape, b.offset, b.extent);
    int64_t runs = 1;
    for (size_t i = 1; i < found.size(); ++i) runs += found[i] != found[i - 1] + 1;
    // One index of a dimension may join its neighbours by chance: never fewer than that.
    EXPECT_EQ(run_count(b.shape, b.extent), runs) << shape_text(b.extent);
  }
  EXPECT_EQ(run_count({3, 5}, {3, 0}), 0);
  EXPECT_EQ(run_count({3, 0}, {3, 0}), 0);
}

TEST(Slab, SumsAddUpToTheWhole) {
  for (const Box& b : kBoxes) {
    std::vector<float> whole(static_cast<size_t>(shape_bytes(b.shape, 1)), 0.0f);
    std::vector<float> own;
    for (const int64_t e : elements(b.shape, b.offset, b.extent)) {
      own.push_back(static_cast<float>(e) + 0.5f);
      whole[static_cast<size_t>(e)] = own.back();
    }
    // Zeros add nothing, so that the slab alone makes the sum of the whole.
    EXPECT_EQ(checksum_slab(7, b.shape, b.offset, b.extent, own.data(), 4),
              checksum_slab(7, b.shape, Shape(b.shape.size(), 0), b.shape, whole.data(), 4))
        << shape_text(b.extent) << " of " << shape_text(b.shape);
  }
}

TEST(Slab, ChunksAreWholeRowsWhereTheyFit) {
  EXPECT_EQ(chunk_shape({100, 10}, 4, 4000), Shape{});
  EXPECT_EQ(chunk_shape({100, 10}, 4, 400), (Shape{10, 10}));
  EXPECT_EQ(chunk_shape({100, 10}, 4, 39), (Shape{1, 9}));
  EXPECT_EQ(chunk_shape({5, 6, 7}, 8, 8 * 7 * 2), (Shape{1, 2, 7}));
  EXPECT_EQ(chunk_shape({0, 7}, 8, 8), Shape{});
}

}  // namespace
}  // namespace espalier
