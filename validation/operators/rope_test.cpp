// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: the plain formula with both scalings, inverse, adjoint, writes.
#include <gtest/gtest.h>

#include <cmath>

#include "cases_attention.hpp"
#include "derivative.hpp"
#include "draw.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

constexpr RopeStyle kStyles[] = {RopeStyle::half, RopeStyle::interleaved};

/// Configurations with every scaling; frequencies fall into all three ranges of llama3's rule.
std::vector<ModelConfig> models() {
  std::vector<ModelConfig> all;
  for (const int64_t dim : {2, 6, 34, 80})
    for (const RopeScaling scaling :
         {RopeScaling::none, RopeScaling::linear, RopeScaling::llama3}) {
      ModelConfig m = small_config().model;
      m.num_kv_heads = 2;
      m.head_dim = dim;
      m.rope_theta = 500.0;
      m.rope_scaling = scaling;
      m.rope_scaling_factor = 5.0;
      m.rope_original_length = 150;
      all.push_back(m);
    }
  return all;
}

/// The frequency of pair i, written from the papers: llama3's rule by wavelengths.
double plain_frequency(const ModelConfig& m, int64_t i) {
  const double f = 1.0 / std::pow(m.rope_theta, 2.0 * i / m.head_dim);
  if (m.rope_scaling == RopeScaling::linear) return f / m.rope_scaling_factor;
  if (m.rope_scaling == RopeScaling::none) return f;
  const double wavelength = 2 * M_PI / f;
  if (wavelength < m.rope_original_length / m.rope_high_freq_factor) return f;
  if (wavelength > m.rope_original_length / m.rope_low_freq_factor)
    return f / m.rope_scaling_factor;
  const double smooth = (m.rope_original_length / wavelength - m.rope_low_freq_factor) /
                        (m.rope_high_freq_factor - m.rope_low_freq_factor);
  return (1 - smooth) * f / m.rope_scaling_factor + smooth * f;
}

HeadShape head_shape(const ModelConfig& m) {
  return {m.num_heads, m.num_kv_heads, m.head_dim};
}

std::vector<int32_t> draw_positions(int64_t count) {
  Draw draw(count);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < count; ++i)
    positions.push_back(static_cast<int32_t>(draw.integer(0, 299)));
  return positions;
}

std::vector<double> plain_rope(const ModelConfig& m, RopeStyle style,
                               const std::vector<int32_t>& positions, std::vector<double> x) {
  const HeadShape h = head_shape(m);
  const int64_t half = m.head_dim / 2;
  for (size_t t = 0; t < positions.size(); ++t)
    for (int64_t head = 0; head < h.heads + h.kv_heads; ++head)
      for (int64_t i = 0; i < half; ++i) {
        double* row = &x[t * h.row() + head * m.head_dim];
        double& a = style == RopeStyle::half ? row[i] : row[2 * i];
        double& b = style == RopeStyle::half ? row[i + half] : row[2 * i + 1];
        const double angle = positions[t] * plain_frequency(m, i);
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
  return x;
}

TEST(Rope, AllRangesOfTheScalingOccur) {
  int unchanged = 0, divided = 0, blended = 0;
  for (const auto& m : models()) {
    if (m.rope_scaling != RopeScaling::llama3) continue;
    for (int64_t i = 0; i < m.head_dim / 2; ++i) {
      const double f = std::pow(m.rope_theta, -2.0 * i / m.head_dim);
      const double ratio = plain_frequency(m, i) / f;
      (ratio > 0.999 ? unchanged : ratio < 0.2001 ? divided : blended)++;
    }
  }
  EXPECT_GT(unchanged, 3);
  EXPECT_GT(divided, 3);
  EXPECT_GT(blended, 3);
}

TEST(Rope, ValuesOfThePlainFormula) {
  const auto positions = draw_positions(13);
  for (const auto& m : models())
    for (const RopeStyle style : kStyles) {
      RopeCase<double> c(style, head_shape(m), positions, make_rope_table<double>(m, 300));
      Draw draw(3);
      Array in(ElementType::fp64, c.inputs()[0].size), out(ElementType::fp64, in.size());
      in.fill(draw.normals(in.size()));
      c.forward({out}, {in});
      EXPECT_LT(relative_distance(out.read(), plain_rope(m, style, positions, in.read())), 1e-13);
    }
}

TEST(Rope, InverseUndoesForwardAndValuesPassThrough) {
  const DeviceList<int32_t> positions = draw_positions(67);
  for (const auto& m : models())
    for (const RopeStyle style : kStyles) {
      const HeadShape h = head_shape(m);
      const auto table = make_rope_table<double>(m, 300);
      Draw draw(4);
      Array x(ElementType::fp64, 67 * h.row());
      x.fill(draw.normals(x.size()));
      const auto before = x.read();
      const auto matrix = x.matrix<double>(67, h.row());
      rotate_packed<double>(style, Rotation::forward, matrix, h, table, positions.data());
      const auto turned = x.read();
      EXPECT_GT(relative_distance(turned, before), 0.1);
      for (int64_t t = 0; t < 67; ++t)
        for (int64_t j = (h.heads + h.kv_heads) * h.head_dim; j < h.row(); ++j)
          ASSERT_EQ(turned[t * h.row() + j], before[t * h.row() + j]);
      rotate_packed<double>(style, Rotation::inverse, matrix, h, table, positions.data());
      EXPECT_LT(relative_distance(x.read(), before), 1e-15);
    }
}

TEST(Rope, GradientsAndAdjoint) {
  for (const auto& m : models())
    for (const RopeStyle style : kStyles)
      for (const int64_t tokens : {1, 65}) {
        RopeCase<double> c(style, head_shape(m), draw_positions(tokens),
                           make_rope_table<double>(m, 300));
        EXPECT_EQ(check_gradients(c), "");
        EXPECT_EQ(check_adjoint(c), "");
      }
}

TEST(Rope, NegativeControls) {
  const ModelConfig m = models()[4];
  for (const RopeStyle style : kStyles) {
    RopeCase<double> c(style, head_shape(m), draw_positions(5), make_rope_table<double>(m, 300));
    EXPECT_EQ(unnoticed_sabotage(c), "");
    RopeCase<double> not_transposed(style, head_shape(m), draw_positions(5),
                                    make_rope_table<double>(m, 300), Rotation::forward);
    EXPECT_NE(check_gradients(not_transposed), "");
    EXPECT_NE(check_adjoint(not_transposed), "");
  }
}

// Scores between rotated queries and keys depend on the distance of their positions only.
TEST(Rope, ScoresDependOnDistance) {
  ModelConfig m = models()[5];
  m.num_heads = m.num_kv_heads = 1;
  const HeadShape h = head_shape(m);
  const auto table = make_rope_table<double>(m, 300);
  Draw draw(5);
  const auto q = draw.normals(h.head_dim), k = draw.normals(h.head_dim);
  const auto score = [&](int32_t at_q, int32_t at_k, RopeStyle style) {
    Array x(ElementType::fp64, 2 * h.row());
    std::vector<double> values(2 * h.row(), 0.0);
    std::copy(q.begin(), q.end(), values.begin());
    std::copy(k.begin(), k.end(), values.begin() + h.row() + h.head_dim);
    x.fill(values);
    const DeviceList<int32_t> positions = {at_q, at_k};
    rotate_packed<double>(style, Rotation::forward, x.matrix<double>(2, h.row()), h, table,
                          positions.data());
    const auto y = x.read();
    double sum = 0.0;
    for (int64_t d = 0; d < h.head_dim; ++d) sum += y[d] * y[h.row() + h.head_dim + d];
    return sum;
  };
  for (const RopeStyle style : kStyles) {
    EXPECT_NEAR(score(9, 2, style), score(250, 243, style), 1e-12);
    EXPECT_GT(std::abs(score(9, 2, style) - score(9, 3, style)), 1e-6);
  }
}

// Two products and a sum of terms below 1.5, rounded once to 16-bit types; fp32: table, products
// and sum are rounded, about two epsilons.
template <class T>
void compare_rope() {
  for (const auto& m : models())
    for (const RopeStyle style : kStyles) {
      RopeCase<T> low(style, head_shape(m), draw_positions(65), make_rope_table<Acc<T>>(m, 300));
      RopeCase<double> exact(style, head_shape(m), draw_positions(65),
                             make_rope_table<double>(m, 300));
      const double c = std::is_same_v<T, float> ? 2.0 : 1.0;
      EXPECT_EQ(compare_types(low, exact, {c, c}), "");
    }
}
TEST(Rope, LowPrecision) {
  compare_rope<float>();
  compare_rope<bf16>();
  compare_rope<fp16>();
}

}  // namespace
}  // namespace espalier::check
