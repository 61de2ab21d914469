// SPDX-License-Identifier: Apache-2.0
// Pieces of tensors of every kind of shape: each element once, each piece one run of bytes.
#include "checkpoint/piece_cut.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/error.hpp"

namespace espalier {
namespace {

/// Visits every element of a slab in row-major order by its index in the whole tensor.
template <class Visit>
void for_each(const Shape& shape, const PieceCut::Piece& piece, const Visit& visit) {
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < piece.elements; ++i) {
    int64_t index = 0;
    for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + piece.offset[d] + at[d];
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < piece.extent[d]) break;
      at[d] = 0;
    }
  }
}

TEST(PieceCut, HoldsEveryElementOnceInRunsOfBoundedSize) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{17}, Shape{5, 7}, Shape{40, 1}, Shape{3, 100},
                             Shape{2, 3, 4}, Shape{3, 1, 50}, Shape{2, 9, 2, 3}})
    for (const int64_t most : {1, 8, 24, 64, 400, 100000}) {
      const PieceCut cut(shape, 8, most);
      std::vector<int> seen(static_cast<size_t>(shape_bytes(shape, 1)), 0);
      for (int64_t i = 0; i < cut.count(); ++i) {
        const PieceCut::Piece piece = cut.piece(i);
        ASSERT_GT(piece.elements, 0);
        EXPECT_LE(piece.elements * 8, std::max<int64_t>(most, 8));
        int64_t next = -1;
        for_each(shape, piece, [&](int64_t index) {
          EXPECT_TRUE(next < 0 || index == next) << shape_text(shape) << " piece " << i;
          next = index + 1;
          ++seen[static_cast<size_t>(index)];
        });
      }
      for (const int times : seen) EXPECT_EQ(times, 1) << shape_text(shape) << " most " << most;
    }
}

TEST(PieceCut, TakesFewPieces) {
  EXPECT_EQ(PieceCut({1000, 1000}, 4, int64_t{8} << 20).count(), 1);
  EXPECT_EQ(PieceCut({1000, 1000}, 4, 400000).count(), 10);
  EXPECT_EQ(PieceCut({}, 8, 1).count(), 1);
}

TEST(PieceCut, EmptyTensorsHaveNone) {
  EXPECT_EQ(PieceCut({0}, 4, 100).count(), 0);
  EXPECT_EQ(PieceCut({3, 0}, 4, 100).count(), 0);
  EXPECT_EQ(PieceCut({0, int64_t{1} << 40, int64_t{1} << 40}, 4, 100).count(), 0);
  EXPECT_THROW(PieceCut({0}, 4, 100).piece(0), InternalError);
  EXPECT_THROW(PieceCut({int64_t{1} << 40, int64_t{1} << 40}, 4, 100), InternalError);
}

}  // namespace
}  // namespace espalier
