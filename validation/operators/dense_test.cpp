// SPDX-License-Identifier: Apache-2.0
// Linear layers, activations, embedding and loss: derivatives, writes, low-precision instances.
#include <gtest/gtest.h>

#include <cmath>

#include "cases_dense.hpp"
#include "derivative.hpp"
#include "draw.hpp"

namespace espalier::check {
namespace {

constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::gelu, Activation::swiglu};

/// Tokens, outputs, inputs: odd, and beside multiples of 16, 64, 128 and 256.
struct Shape {
  int64_t tokens, out, in;
};
constexpr Shape kShapes[] = {{1, 1, 1},     {7, 5, 3},      {17, 129, 15},
                             {65, 33, 257}, {130, 127, 31}, {3, 255, 64}};

TEST(Linear, Gradients) {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.tokens, s.out, s.in));
    LinearCase<double> overwriting(s.tokens, s.out, s.in),
        adding(s.tokens, s.out, s.in, Write::add);
    LinearAddCase<double> onto(s.tokens, s.out, s.in);
    EXPECT_EQ(check_gradients(overwriting), "");
    EXPECT_EQ(check_gradients(adding), "");
    EXPECT_EQ(check_gradients(onto), "");
  }
}

TEST(Linear, NegativeControls) {
  LinearCase<double> overwriting(9, 17, 5), adding(9, 17, 5, Write::add);
  EXPECT_EQ(unnoticed_sabotage(overwriting), "");
  EXPECT_EQ(unnoticed_sabotage(adding), "");
  LinearAddCase<double> onto(9, 17, 5);
  EXPECT_EQ(unnoticed_sabotage(onto), "");
}

// Inputs, products' sums and results are rounded once each; the sums of `in` or `tokens` terms of
// either sign grow by their square root, their rounding errors too, so the relative error stays
// near one epsilon for 16-bit types and grows like sqrt(length) at most for fp32 sums.
template <class T>
void compare_linear() {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.tokens, s.out, s.in));
    LinearCase<T> low(s.tokens, s.out, s.in);
    LinearCase<double> exact(s.tokens, s.out, s.in);
    const double longest = static_cast<double>(std::max({s.tokens, s.out, s.in}));
    const double c = std::is_same_v<T, float> ? 1.0 + std::sqrt(longest) : 2.0;
    EXPECT_EQ(compare_types(low, exact, {c, c}), "");
  }
}
TEST(Linear, LowPrecision) {
  compare_linear<float>();
  compare_linear<bf16>();
  compare_linear<fp16>();
}

// What stood in the weight's gradient must not matter, whatever it is; the bias is added to.
template <class T>
void check_overwriting() {
  for (const auto& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.tokens, s.out, s.in));
    Draw draw(s.out);
    Array dy(ElementTraits<T>::kType, s.tokens * s.out),
        x(ElementTraits<T>::kType, s.tokens * s.in);
    dy.fill(draw.normals(dy.size()));
    x.fill(draw.normals(x.size()));
    const Array scratch = bias_scratch<T>(s.out);
    Array dw(ElementTraits<Acc<T>>::kType, s.out * s.in), db(ElementTraits<Acc<T>>::kType, s.out);
    const auto gradients = [&](Write write) {
      db.fill(std::vector<double>(s.out, 0.5));
      linear_backward<T>(dw.matrix<Acc<T>>(s.out, s.in), db.vector<Acc<T>>(),
                         dy.matrix<T>(s.tokens, s.out), x.matrix<T>(s.tokens, s.in),
                         scratch.as<Acc<T>>(), write);
      return std::make_pair(dw.read(), db.read());
    };
    dw.fill(std::vector<double>(s.out * s.in, 0.0));
    const auto added = gradients(Write::add);
    dw.poison();
    const auto overwritten = gradients(Write::overwrite);
    EXPECT_LT(relative_distance(overwritten.first, added.first), 1e-6);
    EXPECT_EQ(overwritten.second, added.second);
    EXPECT_TRUE(dw.guards_are_intact());
  }
}
TEST(Linear, LowPrecisionGradientsOverwriteWhatStoodThere) {
  check_overwriting<float>();
  check_overwriting<bf16>();
  check_overwriting<fp16>();
}

TEST(ActivationFunctions, Gradients) {
  for (const Activation kind : kActivations)
    for (const Bias bias : {Bias::no, Bias::yes})
      for (const auto& s : kShapes) {
        SCOPED_TRACE(fmt::format("kind {}, {} x {}", static_cast<int>(kind), s.tokens, s.out));
        ActivationCase<double> c(kind, bias, s.tokens, s.out);
        EXPECT_EQ(check_gradients(c), "");
      }
}

TEST(ActivationFunctions, NegativeControls) {
  for (const Activation kind : kActivations) {
    ActivationCase<double> c(kind, Bias::yes, 5, 19);
    EXPECT_EQ(unnoticed_sabotage(c), "");
  }
  // The two forms of GELU differ by less than a thousandth; the check tells them apart.
  ActivationCase<double> mixed(Activation::gelu, Activation::gelu_tanh, Bias::no, 5, 19);
  EXPECT_NE(check_gradients(mixed), "");
}

TEST(ActivationFunctions, Values) {
  const double u[] = {-3.0, -0.5, 0.0, 0.7, 2.5};
  for (const double x : u) {
    Array up(ElementType::fp64, 1), y(ElementType::fp64, 1);
    const auto value = [&](Activation kind) {
      up.fill({x});
      activation_forward<double>(kind, y.matrix<double>(1, 1), up.matrix<double>(1, 1), {});
      return y.read()[0];
    };
    EXPECT_NEAR(value(Activation::gelu), x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))), 1e-15);
    const double z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(value(Activation::gelu_tanh), 0.5 * x * (1 + std::tanh(z)), 1e-15);
    Array gate_up(ElementType::fp64, 2);
    gate_up.fill({x, 3.0});
    activation_forward<double>(Activation::swiglu, y.matrix<double>(1, 1),
                               gate_up.matrix<double>(1, 2), {});
    EXPECT_NEAR(y.read()[0], x / (1 + std::exp(-x)) * 3.0, 1e-14);
  }
}

// A handful of roundings in fp32 and one to the type; the bias adds one more, and its gradient sums
// the rounded gradients of the tokens. fp32: the rational approximations add a few epsilons.
template <class T>
void compare_activations() {
  for (const Activation kind : kActivations)
    for (const auto& s : kShapes) {
      SCOPED_TRACE(fmt::format("kind {}, {} x {}", static_cast<int>(kind), s.tokens, s.out));
      ActivationCase<T> low(kind, Bias::yes, s.tokens, s.out);
      ActivationCase<double> exact(kind, Bias::yes, s.tokens, s.out);
      const double c = std::is_same_v<T, float> ? 8.0 : 3.0;
      EXPECT_EQ(compare_types(low, exact, {c, c}), "");
    }
}
TEST(ActivationFunctions, LowPrecision) {
  compare_activations<float>();
  compare_activations<bf16>();
  compare_activations<fp16>();
}

template <class T>
EmbeddingCase<T> embedding_case(int64_t hidden, int64_t count, Bias positions, uint64_t seed) {
  Draw draw(seed);
  std::vector<int32_t> tokens, places;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(draw.integer(0, 6)));  // many repeat
    if (positions == Bias::yes) places.push_back(static_cast<int32_t>(i % 11));
  }
  return EmbeddingCase<T>(7, 11, hidden, tokens, places);
}

TEST(Embedding, GradientsAndAdjoint) {
  for (const int64_t hidden : {1, 15, 128, 130})
    for (const int64_t count : {1, 7, 64, 257})
      for (const Bias positions : {Bias::no, Bias::yes}) {
        auto c = embedding_case<double>(hidden, count, positions, 3 + hidden);
        EXPECT_EQ(check_gradients(c), "");
        EXPECT_EQ(check_adjoint(c), "");
      }
}

TEST(Embedding, NegativeControls) {
  auto c = embedding_case<double>(9, 13, Bias::yes, 4);
  EXPECT_EQ(unnoticed_sabotage(c), "");
}

// Forward: one addition, rounded once. Backward: sums of exact values in fp32, about 40 a row here.
template <class T>
void compare_embedding() {
  auto low = embedding_case<T>(130, 257, Bias::yes, 5);
  auto exact = embedding_case<double>(130, 257, Bias::yes, 5);
  EXPECT_EQ(compare_types(low, exact, {1.0, std::is_same_v<T, float> ? 8.0 : 1.0}), "");
}
TEST(Embedding, LowPrecision) {
  compare_embedding<float>();
  compare_embedding<bf16>();
  compare_embedding<fp16>();
}

std::vector<int32_t> draw_targets(int64_t count, int64_t vocab, uint64_t seed) {
  Draw draw(seed);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < count; ++i)
    targets.push_back(draw.chance(0.2) ? -1 : static_cast<int32_t>(draw.integer(0, vocab - 1)));
  targets[0] = static_cast<int32_t>(vocab - 1);
  return targets;
}

TEST(CrossEntropy, Gradients) {
  for (const int64_t vocab : {2, 15, 17, 257, 1000})
    for (const int64_t count : {1, 9})
      for (const double scale : {1.0, 0.0625, 2.5}) {
        SCOPED_TRACE(fmt::format("{} of {} at {}", count, vocab, scale));
        CrossEntropyCase<double> c(vocab, draw_targets(count, vocab, vocab), scale);
        EXPECT_EQ(check_gradients(c), "");
      }
}

TEST(CrossEntropy, NegativeControls) {
  CrossEntropyCase<double> c(13, draw_targets(9, 13, 2), 0.5);
  EXPECT_EQ(unnoticed_sabotage(c), "");
}

TEST(CrossEntropy, ValuesOfAPlainLoop) {
  const int64_t vocab = 37, count = 11;
  Draw draw(8);
  const auto targets = draw_targets(count, vocab, 9);
  const auto logits = draw.normals(count * vocab, 3.0);
  Array z(ElementType::fp64, count * vocab), losses(ElementType::fp64, count);
  z.fill(logits);
  cross_entropy<double>(z.matrix<double>(count, vocab), DeviceList<int32_t>(targets).data(),
                        losses.as<double>(), 0.3, 2.0, Gradient::in_place);
  const auto gradient = z.read(), found = losses.read();
  for (int64_t t = 0; t < count; ++t) {
    double sum = 0.0;
    for (int64_t v = 0; v < vocab; ++v) sum += std::exp(0.3 * logits[t * vocab + v]);
    const bool valid = targets[t] >= 0;
    const double loss = valid ? std::log(sum) - 0.3 * logits[t * vocab + targets[t]] : 0.0;
    EXPECT_NEAR(found[t], loss, 1e-13);
    for (int64_t v = 0; v < vocab; ++v) {
      const double p = std::exp(0.3 * logits[t * vocab + v]) / sum;
      const double expected = valid ? 2.0 * 0.3 * (p - (v == targets[t] ? 1.0 : 0.0)) : 0.0;
      EXPECT_NEAR(gradient[t * vocab + v], expected, 1e-14);
    }
  }
}

// Without the greatest logit taken off, e^10000 would overflow in every type.
template <class T>
void large_logits(double magnitude) {
  const int64_t vocab = 33;
  std::vector<double> logits(2 * vocab, -magnitude);
  logits[5] = magnitude;
  logits[vocab + 32] = magnitude;
  const DeviceList<int32_t> targets = {5, 0};
  Array z(ElementTraits<T>::kType, 2 * vocab), losses(sum_type(ElementTraits<T>::kType), 2);
  z.fill(logits);
  const double step = z.read()[5] - z.read()[0];  // as the type holds it
  cross_entropy<T>(z.matrix<T>(2, vocab), targets.data(), losses.as<Acc<T>>(), 1.0, 1.0,
                   Gradient::in_place);
  EXPECT_EQ(losses.read()[0], 0.0);
  EXPECT_NEAR(losses.read()[1], step, 1e-6 * step);
  const auto g = z.read();
  EXPECT_EQ(g[5], 0.0);
  EXPECT_EQ(g[vocab], -1.0);
  EXPECT_EQ(g[vocab + 32], 1.0);
  EXPECT_EQ(length(g), std::sqrt(2.0));
}
TEST(CrossEntropy, LargeLogits) {
  large_logits<double>(1e4);
  large_logits<float>(1e4);
  large_logits<bf16>(1e4);
  large_logits<fp16>(1e4);
}

TEST(CrossEntropy, GradientOfATokenSumsToZero) {
  const int64_t vocab = 501;
  CrossEntropyCase<double> c(vocab, draw_targets(6, vocab, 12), 1.0);
  Draw draw(13);
  Array z(ElementType::fp64, 6 * vocab), d(ElementType::fp64, 6 * vocab), u(ElementType::fp64, 6);
  z.fill(draw.normals(6 * vocab, 3.0));
  u.fill(std::vector<double>(6, 1.0));
  c.backward({d}, {u}, {z});
  const auto g = d.read();
  for (int64_t t = 0; t < 6; ++t) {
    double sum = 0.0;
    for (int64_t v = 0; v < vocab; ++v) sum += g[t * vocab + v];
    EXPECT_NEAR(sum, 0.0, 1e-14);
  }
}

// The exponent of a rounded difference: an error of half an ulp of the logits, about 8 here, is an
// absolute one in the exponent, hence c = 8 for fp32; 16-bit logits are exact inputs and computed
// with in fp32, so only the final rounding counts there.
template <class T>
void compare_cross_entropy() {
  for (const int64_t vocab : {17, 257, 1000}) {
    CrossEntropyCase<T> low(vocab, draw_targets(19, vocab, 6), 0.75);
    CrossEntropyCase<double> exact(vocab, draw_targets(19, vocab, 6), 0.75);
    EXPECT_EQ(compare_types(low, exact, {4.0, std::is_same_v<T, float> ? 8.0 : 1.0}), "");
  }
}
TEST(CrossEntropy, LowPrecision) {
  compare_cross_entropy<float>();
  compare_cross_entropy<bf16>();
  compare_cross_entropy<fp16>();
}

}  // namespace
}  // namespace espalier::check
