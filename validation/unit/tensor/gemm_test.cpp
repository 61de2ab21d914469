// SPDX-License-Identifier: Apache-2.0
// Matrix products against plain loops: transposes, odd shapes, factors, leading dimensions, types.
#include "tensor/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../../device_list.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

using check::DeviceList;

struct Product {
  Op op_a = Op::none, op_b = Op::none;
  int64_t m = 1, n = 1, k = 1;
  double alpha = 1.0, beta = 0.0;
  int64_t padding = 0;  // elements between the rows of every matrix
};

template <class T>
double wide(T x) {
  return static_cast<double>(static_cast<Acc<T>>(x));
}

/// A matrix of random values; what lies between its rows is NaN.
template <class T>
struct Matrix {
  int64_t rows, columns, ld;
  std::vector<T> values;
  Matrix(int64_t r, int64_t c, int64_t padding, uint64_t stream)
      : rows(r), columns(c), ld(c + padding) {
    values.assign(rows * ld, T(std::numeric_limits<float>::quiet_NaN()));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        values[i * ld + j] = T(static_cast<Acc<T>>(random_normal(3, stream, i * columns + j)));
  }
  double at(int64_t i, int64_t j) const { return wide(values[i * ld + j]); }
};

template <class T>
double element(const Matrix<T>& x, Op op, int64_t i, int64_t j) {
  return op == Op::none ? x.at(i, j) : x.at(j, i);
}

/// Relative error allowed of a sum of k terms in T's sum type: rounding errors of either sign add
/// like a random walk, hence sqrt(k) epsilons of the terms' size; C's own rounding besides.
template <class T, class C>
double tolerance(const Product& p) {
  const double sum = std::is_same_v<Acc<T>, double> ? 0x1.0p-52 : 0x1.0p-23;
  const double out = std::is_same_v<C, bf16> ? 0x1.0p-8 : std::is_same_v<C, fp16> ? 0x1.0p-11 : 0;
  const double size = std::abs(p.alpha) * std::sqrt(static_cast<double>(p.k)) * 4 + 1.0;
  return sum * 4 * std::sqrt(static_cast<double>(p.k) + 1) * size + out * size;
}

template <class T, class C>
void expect_product(const Product& p) {
  SCOPED_TRACE(fmt::format("{}{} {} x {} x {} alpha {} beta {} padding {}",
                           p.op_a == Op::none ? 'N' : 'T', p.op_b == Op::none ? 'N' : 'T', p.m, p.n,
                           p.k, p.alpha, p.beta, p.padding));
  const bool ta = p.op_a == Op::transpose, tb = p.op_b == Op::transpose;
  const Matrix<T> a(ta ? p.k : p.m, ta ? p.m : p.k, p.padding, 1);
  const Matrix<T> b(tb ? p.n : p.k, tb ? p.k : p.n, p.padding, 2);
  Matrix<C> c(p.m, p.n, p.padding, 4);
  const Matrix<C> before = c;
  if (p.beta == 0.0)  // what stood there must not matter
    c.values.assign(c.values.size(), C(std::numeric_limits<float>::quiet_NaN()));
  const DeviceList<T> left(a.values), right(b.values);
  const DeviceList<C> result(c.values);
  gemm<T, C>(p.op_a, p.op_b, p.m, p.n, p.k, static_cast<Acc<T>>(p.alpha), left.data(), a.ld,
             right.data(), b.ld, static_cast<Acc<T>>(p.beta), result.data(), c.ld);
  c.values = result.host();
  const double allowed = tolerance<T, C>(p);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < p.k; ++l) sum += element(a, p.op_a, i, l) * element(b, p.op_b, l, j);
      const double expected = p.alpha * sum + (p.beta == 0.0 ? 0.0 : p.beta * before.at(i, j));
      ASSERT_NEAR(c.at(i, j), expected, allowed) << i << ", " << j;
    }
    for (int64_t j = p.n; j < c.ld; ++j)
      ASSERT_TRUE(std::isnan(wide(c.values[i * c.ld + j]))) << "wrote between rows";
  }
}

template <class T, class C>
void expect_all_products() {
  struct Shape {
    int64_t m, n, k;
  };
  constexpr Shape kShapes[] = {{1, 1, 1},    {1, 17, 5},  {3, 1, 33},    {16, 16, 16},
                               {17, 33, 65}, {63, 65, 7}, {130, 31, 257}};
  constexpr double kFactors[][2] = {{1, 0}, {1, 1}, {-0.5, 0.75}, {0, 1}};
  for (const Op op_a : {Op::none, Op::transpose})
    for (const Op op_b : {Op::none, Op::transpose})
      for (const auto& s : kShapes)
        for (const auto& f : kFactors)
          for (const int64_t padding : {0, 5})
            expect_product<T, C>({op_a, op_b, s.m, s.n, s.k, f[0], f[1], padding});
}

TEST(Gemm, Fp64) {
  expect_all_products<double, double>();
}
TEST(Gemm, Fp32) {
  expect_all_products<float, float>();
}
TEST(Gemm, Bf16) {
  expect_all_products<bf16, bf16>();
}
TEST(Gemm, Fp16) {
  expect_all_products<fp16, fp16>();
}
TEST(Gemm, Bf16IntoFp32) {
  expect_all_products<bf16, float>();
}
TEST(Gemm, Fp16IntoFp32) {
  expect_all_products<fp16, float>();
}

// Small whole numbers have exact products and sums in every type: no tolerance at all.
template <class T, class C>
void expect_exact() {
  const int64_t m = 19, n = 23, k = 29;
  std::vector<T> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<float>(static_cast<int>(i % 3) - 1));
  for (size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(static_cast<int>(i % 5) - 2));
  const DeviceList<T> left(a), right(b);
  const DeviceList<C> result(m * n);
  gemm<T, C>(Op::none, Op::none, m, n, k, 1, left.data(), k, right.data(), n, 0, result.data(), n);
  const auto c = result.host();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t l = 0; l < k; ++l) sum += wide(a[i * k + l]) * wide(b[l * n + j]);
      ASSERT_EQ(wide(c[i * n + j]), sum);
    }
}
TEST(Gemm, WholeNumbersAreExact) {
  expect_exact<double, double>();
  expect_exact<float, float>();
  expect_exact<bf16, bf16>();
  expect_exact<fp16, fp16>();
  expect_exact<bf16, float>();
}

TEST(Gemm, AnEmptyProductWritesNothing) {
  const DeviceList<float> c = {7.0f}, x = {1.0f};
  gemm<float, float>(Op::none, Op::none, 0, 3, 2, 1, x.data(), 2, x.data(), 3, 0, c.data(), 3);
  gemm<float, float>(Op::none, Op::none, 3, 0, 2, 1, x.data(), 2, x.data(), 1, 0, c.data(), 1);
  EXPECT_EQ(c.host(), std::vector<float>{7.0f});
}

TEST(Gemm, RefusesWhatTheLibrarysIntegersCannotHold) {
  if (device::kPresent) GTEST_SKIP() << "a device's library counts in 64 bits";
  const DeviceList<double> x = {1.0}, c = {0.0};
  EXPECT_THROW((gemm<double, double>(Op::none, Op::none, 1, 1, int64_t{1} << 31, 1.0, x.data(),
                                     int64_t{1} << 31, x.data(), 1, 0.0, c.data(), 1)),
               InternalError);
}

TEST(Gemm, ReportsItsLibraryAndARate) {
  EXPECT_FALSE(gemm_library().empty());
  const double rate = measure_gemm_rate(ElementType::fp32, 256, 0.01);
  EXPECT_GT(rate, 1e8);  // any processor of the last twenty years
  EXPECT_LT(rate, 1e15);
}

}  // namespace
}  // namespace espalier
