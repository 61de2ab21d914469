// SPDX-License-Identifier: Apache-2.0
// Norms: derivatives, writes, strides, low-precision instances.
#include <gtest/gtest.h>

#include <cmath>

#include "cases_norm.hpp"
#include "derivative.hpp"
#include "draw.hpp"

namespace espalier::check {
namespace {

std::string label(const NormShape& s) {
  return fmt::format("kind {} bias {} rows {} columns {} groups {} accumulate {} in place {}",
                     static_cast<int>(s.kind), static_cast<int>(s.bias), s.rows, s.columns,
                     s.groups, static_cast<int>(s.accumulate), s.in_place);
}

/// All variants of kind and bias that exist.
std::vector<NormShape> kinds() {
  return {{NormKind::layernorm, Bias::yes},
          {NormKind::layernorm, Bias::no},
          {NormKind::rmsnorm, Bias::no}};
}

std::vector<NormShape> shapes() {
  struct Size {
    int64_t rows, columns, groups;
  };
  // One row, one chunk of rows (64) and its neighbours; columns beside multiples of 16 and 128.
  constexpr Size kSizes[] = {{1, 3, 0},    {7, 17, 0},   {63, 15, 0},   {64, 64, 0},
                             {65, 129, 0}, {300, 33, 0}, {130, 257, 0}, {21, 5, 3},
                             {132, 80, 4}, {5, 2, 1},    {70, 6, 2}};
  std::vector<NormShape> all;
  for (const auto& kind : kinds())
    for (const auto& size : kSizes) {
      if (kind.kind == NormKind::layernorm && size.columns < 3) continue;  // nothing varies
      NormShape s = kind;
      s.rows = size.rows;
      s.columns = size.columns;
      s.groups = size.groups;
      all.push_back(s);
    }
  return all;
}

TEST(Norm, Gradients) {
  for (NormShape s : shapes()) {
    SCOPED_TRACE(label(s));
    NormCase<double> overwriting(s);
    EXPECT_EQ(check_gradients(overwriting), "");
    s.in_place = true;
    NormCase<double> in_place(s);
    EXPECT_EQ(check_gradients(in_place), "");
    s.in_place = false;
    s.accumulate = Accumulate::yes;
    NormCase<double> adding(s);
    EXPECT_EQ(check_gradients(adding), "");
  }
}

TEST(Norm, NegativeControls) {
  for (NormShape s : kinds()) {
    s.rows = 6;
    s.columns = 19;
    NormCase<double> overwriting(s);
    EXPECT_EQ(unnoticed_sabotage(overwriting), "");
    s.accumulate = Accumulate::yes;
    s.groups = 3;
    NormCase<double> adding(s);
    EXPECT_EQ(unnoticed_sabotage(adding), "");
  }
  // A backward that drops the mean of the gradient, which layernorm's derivative has.
  NormCase<double> dropped({NormKind::layernorm, Bias::yes, 6, 19}, NormKind::rmsnorm);
  EXPECT_NE(check_gradients(dropped), "");
}

TEST(Norm, ValuesOfAPlainLoop) {
  const int64_t rows = 5, n = 37;
  Draw draw(2);
  const auto x = draw.normals(rows * n, 2.0, 1.0), w = draw.normals(n), b = draw.normals(n);
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
    Array ax(ElementType::fp64, rows * n), ay(ElementType::fp64, rows * n),
        aw(ElementType::fp64, n), ab(ElementType::fp64, n), as(ElementType::fp64, 2 * rows);
    ax.fill(x);
    aw.fill(w);
    ab.fill(b);
    const NormParameters<double> p{aw.vector<double>(), ab.vector<double>()};
    norm_forward<double>(kind, ay.matrix<double>(rows, n), as.as<double>(),
                         RowSet<double>(ax.matrix<double>(rows, n)), p, 0.01);
    const auto y = ay.read(), statistics = as.read();
    for (int64_t i = 0; i < rows; ++i) {
      double mean = 0.0, square = 0.0;
      for (int64_t j = 0; j < n; ++j) mean += x[i * n + j] / n;
      if (kind == NormKind::rmsnorm) mean = 0.0;
      for (int64_t j = 0; j < n; ++j) square += (x[i * n + j] - mean) * (x[i * n + j] - mean) / n;
      const double rstd = 1.0 / std::sqrt(square + 0.01);
      EXPECT_NEAR(statistics[2 * i], mean, 1e-14);
      EXPECT_NEAR(statistics[2 * i + 1], rstd, 1e-14);
      for (int64_t j = 0; j < n; ++j)
        EXPECT_NEAR(y[i * n + j], (x[i * n + j] - mean) * rstd * w[j] + b[j], 1e-13);
    }
  }
}

// A row of one element is its own mean, so layernorm gives the bias and no gradient.
TEST(Norm, LayerNormOfOneColumnIsConstant) {
  NormCase<double> c({NormKind::layernorm, Bias::yes, 3, 1});
  Array x(ElementType::fp64, 3), w(ElementType::fp64, 1), b(ElementType::fp64, 1),
      y(ElementType::fp64, 3);
  x.fill({1.0, -2.0, 5.0});
  w.fill({2.0});
  b.fill({0.25});
  c.forward({y}, {x, w, b});
  EXPECT_EQ(y.read(), std::vector<double>(3, 0.25));
  Array dx(ElementType::fp64, 3), dw(ElementType::fp64, 1), db(ElementType::fp64, 1);
  dw.fill({0.0});
  db.fill({0.0});
  c.backward({dx, dw, db}, {x}, {x, w, b});
  EXPECT_EQ(dx.read(), std::vector<double>(3, 0.0));
  EXPECT_EQ(db.read()[0], 4.0);
}

TEST(ResidualNorm, Gradients) {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const Bias bias : {Bias::no, Bias::yes})
      for (const int64_t tokens : {1, 7, 65})
        for (const int64_t hidden : {3, 17, 64, 129}) {
          SCOPED_TRACE(fmt::format("{} x {}", tokens, hidden));
          ResidualNormCase<double> c(kind, bias, tokens, hidden);
          EXPECT_EQ(check_gradients(c), "");
        }
}

TEST(ResidualNorm, NegativeControls) {
  ResidualNormCase<double> c(NormKind::layernorm, Bias::yes, 5, 19);
  EXPECT_EQ(unnoticed_sabotage(c), "");
}

// It must give the bits of the unfused pair, with dropout and without: the sum rounded to T, then
// the norm of it.
template <class T>
void compare_with_the_unfused_pair(const DropoutMask& mask) {
  const int64_t tokens = 9, hidden = 77;
  const ElementType type = ElementTraits<T>::kType, sums = sum_type(type);
  Draw draw(5);
  ResidualNormCase<T> fused(NormKind::layernorm, Bias::no, tokens, hidden, mask);
  Arrays in, out = {Array(type, tokens * hidden), Array(type, tokens * hidden)};
  for (const auto& port : fused.inputs()) {
    in.emplace_back(type, port.size);
    in.back().fill(draw.normals(port.size));
  }
  fused.forward(out, in);
  Array y(type, tokens * hidden), statistics(sums, 2 * tokens);
  const NormParameters<T> p{in[2].vector<T>(), in[3].vector<T>()};
  norm_forward<T>(NormKind::layernorm, y.matrix<T>(tokens, hidden), statistics.as<Acc<T>>(),
                  RowSet<T>(out[0].matrix<T>(tokens, hidden)), p, NormCase<T>::kEps);
  EXPECT_EQ(y.read(), out[1].read());
}
TEST(ResidualNorm, SameBitsAsTheUnfusedPair) {
  for (const DropoutMask& mask : {DropoutMask{}, DropoutMask{0.3, 4711, 1}}) {
    SCOPED_TRACE(mask.active() ? "dropout" : "no dropout");
    compare_with_the_unfused_pair<double>(mask);
    compare_with_the_unfused_pair<float>(mask);
    compare_with_the_unfused_pair<bf16>(mask);
    compare_with_the_unfused_pair<fp16>(mask);
  }
}

// Statistics are sums of up to 257 terms in fp32 lanes of 17: their error is a few epsilons of
// fp32. 16-bit: y and dx are rounded once; a token's gradient may cancel (the projections are taken
// off), which leaves the fp32 error of larger terms, negligible there.
template <class T>
void compare_norms() {
  const double c = std::is_same_v<T, float> ? 12.0 : 1.5;
  for (const NormShape& s : shapes()) {
    SCOPED_TRACE(label(s));
    if (s.columns < 5) continue;  // rows that nearly cancel say nothing about the type
    NormCase<T> low(s);
    NormCase<double> exact(s);
    EXPECT_EQ(compare_types(low, exact, {c, c}), "");
  }
}
TEST(Norm, LowPrecision) {
  compare_norms<float>();
  compare_norms<bf16>();
  compare_norms<fp16>();
}

}  // namespace
}  // namespace espalier::check
