// SPDX-License-Identifier: Apache-2.0
// The walk over rows: every element once, sums in their documented order to the bit.
#include "tensor/rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/random.hpp"

namespace espalier {
namespace {

template <class S>
std::vector<S> draw_numbers(int64_t n) {
  std::vector<S> x(n);  // of very different sizes, so that the order shows in the bits
  for (int64_t i = 0; i < n; ++i)
    x[i] = static_cast<S>(random_normal(1, 2, i) * std::exp(3.0 * random_normal(1, 3, i)));
  return x;
}

/// Lane l takes elements l, l + 16, ...; then lanes are added 8 apart, 4 apart, ...
template <class S>
S reference_sum(const std::vector<S>& x) {
  std::vector<S> lanes(kSumLanes, S(0));
  for (size_t j = 0; j < x.size(); ++j) lanes[j % kSumLanes] += x[j];
  for (int width = kSumLanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
  return lanes[0];
}

template <class S>
void expect_sums() {
  int differs_from_a_plain_loop = 0;
  for (int64_t n = 0; n < 200; ++n) {
    const auto x = draw_numbers<S>(n);
    const S* data = x.data();
    const S sum = HostRow(0).template sum<S>(n, [=](int64_t j) { return data[j]; });
    ASSERT_EQ(sum, reference_sum(x)) << n;
    S plain = 0;
    for (const S value : x) plain += value;
    differs_from_a_plain_loop += plain != sum;
  }
  EXPECT_GT(differs_from_a_plain_loop, 50);  // the order does show
}
TEST(RowSum, HasTheDocumentedOrder) {
  expect_sums<float>();
  expect_sums<double>();
}

// Products may be fused with the additions, but in the vector body and in the remainder alike:
// zeros behind the elements, which move them from one into the other, change no bit.
template <class S>
void expect_same_bits_with_zeros_behind() {
  for (int64_t n = 1; n < 100; ++n) {
    auto a = draw_numbers<S>(n);
    auto b = draw_numbers<S>(n + 7);
    a.resize(n + 40, S(0));
    b.resize(n + 40, S(0));
    const S *pa = a.data(), *pb = b.data();
    const auto product = [=](int64_t j) { return pa[j] * pb[j]; };
    const S alone = HostRow(0).template sum<S>(n, product);
    for (int64_t more = 1; more <= 40; ++more)
      ASSERT_EQ(HostRow(0).template sum<S>(n + more, product), alone) << n << " + " << more;
  }
}
TEST(RowSum, RemainderRoundsLikeTheVectorBody) {
  expect_same_bits_with_zeros_behind<float>();
  expect_same_bits_with_zeros_behind<double>();
}

TEST(RowMax, FindsTheGreatestWhereverItStands) {
  for (int64_t n = 1; n < 70; ++n)
    for (int64_t where = 0; where < n; ++where) {
      auto x = draw_numbers<float>(n);
      for (float& value : x) value = -std::abs(value) - 1.0f;
      x[where] = -0.5f;
      const float* data = x.data();
      const auto value = [=](int64_t j) { return data[j]; };
      ASSERT_EQ(HostRow(0).max(n, -1e30f, value), -0.5f);
      ASSERT_EQ(HostRow(0).max(n, -0.25f, value), -0.25f) << "the least value wins if greater";
    }
  EXPECT_EQ(HostRow(0).max(0, -3.0f, [](int64_t) { return 1.0f; }), -3.0f);
}

TEST(ForEachRow, VisitsEveryElementOnce) {
  constexpr int64_t kRows = 7, kColumns = 37;
  Buffer<int> counts("counts", kRows * kColumns);
  int* data = counts.data();
  for_each_row(
      "test", kRows, KOKKOS_LAMBDA(const Row& row) {
        int* at = data + row.index() * kColumns;
        row.each(kColumns, [=](int64_t j) { at[j] += 1; });
      });
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, counts);
  for (int64_t i = 0; i < kRows * kColumns; ++i) ASSERT_EQ(host(i), 1) << i;
}

TEST(ForEachColumnTile, CoversTheColumnsOnceInTilesOfAtMostTheLimit) {
  for (const int64_t columns : {1, 127, 128, 129, 256, 300}) {
    Buffer<int> counts("counts", columns), tiles("tiles", 2);
    int *data = counts.data(), *widest = tiles.data();
    for_each_column_tile(
        "test", columns, KOKKOS_LAMBDA(const int64_t first, const int64_t last) {
          for (int64_t j = first; j < last; ++j) data[j] += 1;
          if (last - first > widest[0]) widest[0] = static_cast<int>(last - first);
        });
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, counts);
    for (int64_t j = 0; j < columns; ++j) ASSERT_EQ(host(j), 1) << j << " of " << columns;
    const auto width = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, tiles);
    EXPECT_LE(width(0), kColumnTile);
  }
}

}  // namespace
}  // namespace espalier
