// SPDX-License-Identifier: Apache-2.0
// The walk over rows: every element once, sums in their documented order to the bit.
#include "tensor/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

// Kernels stand in free functions: nvcc takes none from the private members that TEST() makes.
std::vector<int> visits_of_rows(int64_t rows, int64_t columns) {
  const Buffer<int> counts("counts", rows * columns);
  int* data = counts.data();
  for_each_row(
      "test.rows", rows, KOKKOS_LAMBDA(const Row& row) {
        int* at = data + row.index() * columns;
        row.each(columns, [=](int64_t j) { at[j] += 1; });
      });
  return host_copy(data, counts.size());
}

TEST(ForEachRow, VisitsEveryElementOnce) {
  EXPECT_EQ(visits_of_rows(7, 37), std::vector<int>(7 * 37, 1));
  EXPECT_EQ(visits_of_rows(1, 1000), std::vector<int>(1000, 1));
}

// Sums and maxima of rows as kernels see them, whatever the order of additions.
std::vector<double> sum_and_max(const std::vector<double>& x) {
  const Buffer<double> values = device_copy("values", x), results("results", 2);
  const double* from = values.data();
  double* to = results.data();
  const int64_t n = values.size();
  for_each_row(
      "test.sums", 1, KOKKOS_LAMBDA(const Row& row) {
        const double sum = row.sum<double>(n, [=](int64_t j) { return from[j]; });
        const double max = row.max(n, -1e300, [=](int64_t j) { return from[j]; });
        row.each(2, [=](int64_t j) { to[j] = j == 0 ? sum : max; });
      });
  return host_copy(to, 2);
}

TEST(ForEachRow, SumsAndFindsTheGreatest) {
  for (const int64_t n : {1, 2, 31, 32, 33, 127, 1000}) {
    const auto x = draw_numbers<double>(n);
    const auto found = sum_and_max(x);
    double size = 0.0;
    for (const double v : x) size += std::abs(v);
    EXPECT_NEAR(found[0], reference_sum(x), 1e-15 * size) << n;
    EXPECT_EQ(found[1], *std::max_element(x.begin(), x.end())) << n;
  }
}

/// By column, how often it was visited, and the width of its tile.
std::pair<std::vector<int>, std::vector<int>> visits_of_tiles(int64_t columns) {
  const Buffer<int> counts("counts", columns), widths("widths", columns);
  int *count = counts.data(), *width = widths.data();
  for_each_column_tile(
      "test.tiles", columns, KOKKOS_LAMBDA(const int64_t first, const int64_t last) {
        for (int64_t j = first; j < last; ++j) {
          count[j] += 1;
          width[j] = static_cast<int>(last - first);
        }
      });
  return {host_copy(count, columns), host_copy(width, columns)};
}

TEST(ForEachColumnTile, CoversTheColumnsOnceInTilesOfAtMostTheLimit) {
  for (const int64_t columns : {1, 127, 128, 129, 256, 300}) {
    const auto [visits, widths] = visits_of_tiles(columns);
    EXPECT_EQ(visits, std::vector<int>(columns, 1)) << columns;
    for (const int width : widths) EXPECT_LE(width, kColumnTile);
  }
}

}  // namespace
}  // namespace espalier
