// SPDX-License-Identifier: Apache-2.0
// Elementwise operators give an element the same bits whatever else is in its row: compilers split
// a loop into vector code and a remainder, and both must round alike, or a sharded tensor would
// differ from a whole one.
#include <gtest/gtest.h>

#include <functional>

#include "cases_attention.hpp"
#include "cases_dense.hpp"
#include "draw.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

constexpr int64_t kLongest = 131;
constexpr int64_t kRows = 3;

/// The first n columns of every row of x [kRows, kLongest].
std::vector<double> columns(const std::vector<double>& x, int64_t first, int64_t n) {
  std::vector<double> part;
  for (int64_t r = 0; r < kRows; ++r)
    part.insert(part.end(), x.begin() + r * kLongest + first, x.begin() + r * kLongest + first + n);
  return part;
}

/// An operator on matrices of kRows rows: from inputs of n columns to an output of n columns.
using Elementwise =
    std::function<std::vector<double>(const std::vector<std::vector<double>>& inputs, int64_t n)>;

/// Runs f on the whole and on slices of every width and start, and compares the bits.
void expect_same_bits(const Elementwise& f, int inputs, double spread) {
  Draw draw(7);
  std::vector<std::vector<double>> x;
  for (int i = 0; i < inputs; ++i) x.push_back(draw.normals(kRows * kLongest, spread));
  const auto whole = f(x, kLongest);
  for (int64_t n = 1; n <= kLongest; n = n < 40 ? n + 1 : n + 13)
    for (const int64_t first : {int64_t{0}, (kLongest - n) / 2, kLongest - n}) {
      std::vector<std::vector<double>> part;
      for (const auto& input : x) part.push_back(columns(input, first, n));
      ASSERT_EQ(f(part, n), columns(whole, first, n)) << n << " columns from " << first;
    }
}

template <class T>
Array filled(const std::vector<double>& values) {
  Array a(ElementTraits<T>::kType, static_cast<int64_t>(values.size()));
  a.fill(values);
  return a;
}

template <class T>
std::vector<double> concatenated(const std::vector<double>& a, const std::vector<double>& b,
                                 int64_t n) {
  std::vector<double> rows;
  for (int64_t r = 0; r < kRows; ++r) {
    rows.insert(rows.end(), a.begin() + r * n, a.begin() + (r + 1) * n);
    rows.insert(rows.end(), b.begin() + r * n, b.begin() + (r + 1) * n);
  }
  return rows;
}

template <class T>
class ElementwiseBits : public testing::Test {};
using AllTypes = testing::Types<float, double, bf16, fp16>;
TYPED_TEST_SUITE(ElementwiseBits, AllTypes, );

TYPED_TEST(ElementwiseBits, ActivationForward) {
  using T = TypeParam;
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu})
    expect_same_bits(
        [=](const auto& x, int64_t n) {
          const Array up = filled<T>(x[0]), y(up.type(), up.size());
          const Array bias = filled<T>({x[1].begin(), x[1].begin() + n});
          // The bias is the first row of an input, so that slices of it belong together.
          activation_forward<T>(kind, y.matrix<T>(kRows, n), up.matrix<T>(kRows, n),
                                bias.vector<T>());
          return y.read();
        },
        2, 2.0);
}

TYPED_TEST(ElementwiseBits, ActivationBackward) {
  using T = TypeParam;
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu})
    expect_same_bits(
        [=](const auto& x, int64_t n) {
          const Array up = filled<T>(x[0]), dy = filled<T>(x[1]), d(up.type(), up.size());
          activation_backward<T>(kind, d.matrix<T>(kRows, n), dy.matrix<T>(kRows, n),
                                 up.matrix<T>(kRows, n));
          return d.read();
        },
        2, 2.0);
}

TYPED_TEST(ElementwiseBits, SwigluForward) {
  using T = TypeParam;
  expect_same_bits(
      [](const auto& x, int64_t n) {
        const Array up = filled<T>(concatenated<T>(x[0], x[1], n));
        const Array y(up.type(), kRows * n);
        activation_forward<T>(Activation::swiglu, y.matrix<T>(kRows, n), up.matrix<T>(kRows, 2 * n),
                              {});
        return y.read();
      },
      2, 2.0);
}

TYPED_TEST(ElementwiseBits, SwigluBackward) {
  using T = TypeParam;
  for (const bool gate : {true, false})
    expect_same_bits(
        [=](const auto& x, int64_t n) {
          const Array up = filled<T>(concatenated<T>(x[0], x[1], n)), dy = filled<T>(x[2]);
          const Array d(up.type(), 2 * kRows * n);
          activation_backward<T>(Activation::swiglu, d.matrix<T>(kRows, 2 * n),
                                 dy.matrix<T>(kRows, n), up.matrix<T>(kRows, 2 * n));
          const auto both = d.read();
          std::vector<double> one_half;
          for (int64_t r = 0; r < kRows; ++r) {
            const auto at = both.begin() + r * 2 * n + (gate ? 0 : n);
            one_half.insert(one_half.end(), at, at + n);
          }
          return one_half;
        },
        3, 2.0);
}

TYPED_TEST(ElementwiseBits, AddBiasAndBiasGradient) {
  using T = TypeParam;
  expect_same_bits(
      [](const auto& x, int64_t n) {
        const Array values = filled<T>(x[0]);
        const Array bias = filled<T>({x[1].begin(), x[1].begin() + n});
        add_bias<T>(values.matrix<T>(kRows, n), bias.vector<T>());
        Array sum(sum_type(values.type()), n);
        sum.fill(std::vector<double>(n, 0.5));
        linear_backward_bias<T>(sum.vector<Acc<T>>(), Mat<const T>(values.matrix<T>(kRows, n)),
                                bias_scratch<T>(n).template as<Acc<T>>());
        auto result = values.read();
        const auto sums = sum.read();  // in place of the last row
        std::copy(sums.begin(), sums.end(), result.end() - n);
        return result;
      },
      2, 1.0);
}

// Rows of one table entry each: the token's and the position's.
TYPED_TEST(ElementwiseBits, Embedding) {
  using T = TypeParam;
  const DeviceList<int32_t> tokens = {2, 0, 2}, positions = {0, 1, 2};
  expect_same_bits(
      [&](const auto& x, int64_t n) {
        const Array a = filled<T>(x[0]), b = filled<T>(x[1]), y(a.type(), kRows * n);
        embedding_forward<T>(y.matrix<T>(kRows, n), Mat<const T>(a.matrix<T>(kRows, n)),
                             Mat<const T>(b.matrix<T>(kRows, n)), tokens.data(), positions.data());
        return y.read();
      },
      2, 1.0);
}

// Pairs of one head are elements: heads of every even size, whose angles are set alike by hand.
TYPED_TEST(ElementwiseBits, Rope) {
  using T = TypeParam;
  using Real = Acc<T>;
  for (const bool second : {false, true})
    expect_same_bits(
        [=](const auto& x, int64_t n) {
          std::vector<double> angles(x[0].begin(), x[0].begin() + n);  // any numbers will do
          angles.insert(angles.end(), x[1].begin(), x[1].begin() + n);
          const Buffer<Real> table("angles", 2 * n);
          write_to(table.data(), angles);
          const Array a = filled<T>(concatenated<T>(x[1], x[2], n));
          const DeviceList<int32_t> positions(kRows);
          rope<T>(RopeStyle::half, Rotation::forward, a.matrix<T>(kRows, 2 * n), 1, 2 * n, kRows,
                  table, positions.data());
          const auto both = a.read();
          std::vector<double> one_half;
          for (int64_t r = 0; r < kRows; ++r) {
            const auto at = both.begin() + r * 2 * n + (second ? n : 0);
            one_half.insert(one_half.end(), at, at + n);
          }
          return one_half;
        },
        3, 1.0);
}

// A control: a norm is not elementwise, and the comparison says so.
TEST(ElementwiseBitsControl, ARowSumIsNoticed) {
  const auto f = [](const std::vector<std::vector<double>>& x, int64_t n) {
    auto y = x[0];
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = 0.0;
      for (int64_t j = 0; j < n; ++j) sum += y[r * n + j];
      for (int64_t j = 0; j < n; ++j) y[r * n + j] += 1e-16 * sum;
    }
    return y;
  };
  Draw draw(7);
  const auto x = draw.normals(kRows * kLongest);
  EXPECT_NE(f({columns(x, 0, 40)}, 40), columns(f({x}, kLongest), 0, 40));
}

}  // namespace
}  // namespace espalier::check
