// SPDX-License-Identifier: Apache-2.0
// The tuned activations against the formulas in double.
#include <limits>

#include "core/error.hpp"
#include "cuda/pointwise.hpp"
#include "gpu/device_rows.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class TunedActivation : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(TunedActivation, Types);

constexpr Activation kKinds[] = {Activation::gelu_tanh, Activation::gelu, Activation::swiglu};

struct Problem {
  Activation kind = Activation::gelu;
  int64_t rows = 0, columns = 0;
  int64_t start = 0;  // of every array
  bool bias = true;
  uint64_t seed = 1;

  int64_t width() const { return kind == Activation::swiglu ? 2 * columns : columns; }
  std::string text() const {
    return fmt::format("kind {}, [{}, {}] from {}, bias {}", static_cast<int>(kind), rows, columns,
                       start, bias);
  }
};

double gate(Activation kind, double u) {
  switch (kind) {
    case Activation::gelu: return 0.5 * std::erfc(-u * std::sqrt(0.5));
    case Activation::gelu_tanh: {
      const double z = std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u);
      return 1 / (1 + std::exp(-2 * z));
    }
    case Activation::swiglu: break;
  }
  return 1 / (1 + std::exp(-u));
}
/// The derivative of u gate(u).
double slope(Activation kind, double u) {
  const double s = gate(kind, u);
  switch (kind) {
    case Activation::gelu: return s + u * std::exp(-0.5 * u * u) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh: {
      const double change = 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * u * u);
      return s + (s > 0 ? u * s * (1 - s) * change : 0);
    }
    case Activation::swiglu: break;
  }
  return s + u * s * (1 - s);
}

/// Mostly of the size that networks have, some far out, both zeros.
template <class T>
std::vector<T> draw(Random& random, int64_t size) {
  std::vector<T> values;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t kind = random.below(40);
    const double x = kind == 0   ? random.uniform(-60, 60)
                     : kind == 1 ? 0.0
                     : kind == 2 ? -0.0
                     : kind < 10 ? random.uniform(-12, 12)
                                 : random.uniform(-3, 3);
    values.push_back(T(static_cast<float>(x)));
  }
  return values;
}

template <class T>
struct Data {
  explicit Data(const Problem& p) {
    Random random(p.seed);
    up = draw<T>(random, p.rows * p.width());
    bias = random.values<T>(p.width());
    dy = random.values<T>(p.rows * p.columns, -3, 3);
  }
  std::vector<T> up, bias, dy;
};

template <class T>
struct Result {
  std::vector<T> y, up, d_up;
};

template <class T>
Result<T> run(const Problem& p, const Data<T>& d, std::string& fault) {
  const RowShape wide = dense(p.rows, p.width(), p.start), out = dense(p.rows, p.columns, p.start);
  const RowShape vector = dense(1, p.width(), p.start);
  const DeviceArray<T> up(placed(wide, d.up)), bias(placed(vector, d.bias)), dy(placed(out, d.dy));
  const DeviceArray<T> y(poisoned<T>(out.size())), d_up(poisoned<T>(wide.size()));
  cuda::activation_forward<T>(p.kind, y.data() + p.start, up.data() + p.start,
                              p.bias ? bias.data() + p.start : nullptr, p.rows, p.columns,
                              stream());
  cuda::activation_backward<T>(p.kind, d_up.data() + p.start, dy.data() + p.start,
                               up.data() + p.start, p.rows, p.columns, stream());
  Result<T> result;
  result.y = taken(out, y.values(), fault);
  result.up = taken(wide, up.values(), fault);
  result.d_up = taken(wide, d_up.values(), fault);
  return result;
}

/// `scale`: what y is multiplied by here, 1 unless the comparison is on trial.
template <class T>
std::string check(const Problem& p, double scale) {
  std::string fault;
  const Data<T> d(p);
  const auto got = run(p, d, fault);
  std::vector<T> up = d.up;
  if (p.bias)
    for (size_t i = 0; i < up.size(); ++i)
      up[i] = T(static_cast<float>(up[i]) +
                static_cast<float>(d.bias[i % static_cast<size_t>(p.width())]));
  compare_bits("up", got.up, up, fault);

  std::vector<double> y, y_slack, d_up(up.size()), d_up_slack(up.size());
  // Far below zero the exponent's rounding grows with the exponent; below fp32's normal numbers
  // there is nothing.
  constexpr double kRelative = 2e-5, kVanishing = 1e-36;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = 0; j < p.columns; ++j) {
      const auto at = static_cast<size_t>(r * p.width() + j);
      const double u = static_cast<double>(up[at]);
      const double g = static_cast<double>(d.dy[static_cast<size_t>(r * p.columns + j)]);
      double value = u * gate(p.kind, u), change = g * slope(p.kind, u), factor = 1;
      if (p.kind == Activation::swiglu) {
        const auto second = at + static_cast<size_t>(p.columns);
        d_up[second] = g * value;
        d_up_slack[second] = kRelative * std::abs(g * value) + kVanishing;
        factor = static_cast<double>(up[second]);
      }
      y.push_back(scale * value * factor);
      y_slack.push_back(kRelative * std::abs(value * factor) + kVanishing);
      d_up[at] = change * factor;
      d_up_slack[at] = 3e-6 * std::abs(g * factor) * (1 + std::abs(slope(p.kind, u)));
    }
  compare("y", got.y, y, y_slack, fault);
  compare("d_up", got.d_up, d_up, d_up_slack, fault);
  return fault;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  uint64_t seed = 0;
  for (const auto kind : kKinds)
    for (const int64_t n : {1, 7, 8, 33, 100, 768, 1600, 4097})
      for (const bool bias : {true, false})
        for (const int64_t start : {0, 1}) {
          Problem p;
          p.kind = kind;
          p.columns = n;
          p.rows = n > 1000 ? 3 : n > 100 ? 7 : 61;
          p.start = start;
          p.bias = bias;
          p.seed = ++seed;
          all.push_back(p);
        }
  return all;
}

TYPED_TEST(TunedActivation, IsThatOfDouble) {
  for (const auto& p : problems()) EXPECT_EQ(check<TypeParam>(p, 1.0), "") << p.text();
}

/// The share of T's values whose gelu is not that of double rounded to T: twice the formula's error
/// in units of T's last place, about.
template <class T>
double misrounded(double scale) {
  Problem p;
  p.rows = 1;
  p.bias = false;
  Data<T> d(p);
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    T x;
    x.bits = static_cast<uint16_t>(bits);
    // Left out: what is u or subnormal.
    const double u = static_cast<double>(x);
    if (u < 3 && std::abs(u * gate(Activation::gelu, u)) > 1e-4) d.up.push_back(x);
  }
  p.columns = static_cast<int64_t>(d.up.size());
  d.dy = d.bias = std::vector<T>(d.up.size(), T(1.0f));
  std::string fault;
  const auto got = run(p, d, fault);
  EXPECT_EQ(fault, "");
  int64_t different = 0;
  for (size_t i = 0; i < d.up.size(); ++i) {
    const double u = static_cast<double>(d.up[i]);
    const T want(static_cast<float>(scale * u * gate(Activation::gelu, u)));
    different += want.bits != got.y[i].bits;
  }
  return static_cast<double>(different) / static_cast<double>(p.columns);
}

TEST(TunedGelu, RoundsAsDoubleButForAFew) {
  EXPECT_LT(misrounded<bf16>(1.0), 0.002);
  EXPECT_LT(misrounded<fp16>(1.0), 0.01);
  EXPECT_GT(misrounded<bf16>(1.0001), 0.01);
  EXPECT_GT(misrounded<fp16>(1.00003), 0.02);
}

TYPED_TEST(TunedActivation, AnotherScaleIsNoticed) {
  for (const auto kind : kKinds) {
    Problem p;
    p.kind = kind;
    p.rows = 3;
    p.columns = 100;
    EXPECT_EQ(check<TypeParam>(p, 1.0), "");
    EXPECT_NE(check<TypeParam>(p, 2.0), "");
  }
}

TYPED_TEST(TunedActivation, DoesNotDependOnThePlace) {
  for (auto p : problems()) {
    const Data<TypeParam> d(p);
    std::string fault;
    p.start = 0;
    const auto first = run(p, d, fault);
    p.start = 3;
    const auto apart = run(p, d, fault);
    compare_bits("y of unaligned rows", apart.y, first.y, fault);
    compare_bits("d_up of unaligned rows", apart.d_up, first.d_up, fault);
    EXPECT_EQ(fault, "") << p.text();
  }
}

// With the sums over its rows at once: the bits of the two passes that it replaces.
TYPED_TEST(TunedActivation, SumsTheBiasGradientWithTheSameBits) {
  using T = TypeParam;
  for (auto p : problems()) {
    if (p.kind == Activation::swiglu) continue;
    p.rows = p.columns < 100 ? 4242 : p.columns == 100 ? 601 : 130;
    const Data<T> d(p);
    const RowShape shape = dense(p.rows, p.columns, p.start), vector = dense(1, p.columns, p.start);
    const RowShape parts = dense(1, cuda::bias_gradient_scratch(p.rows, p.columns));
    Random random(p.seed);
    const auto old = random.values<float>(p.columns);
    const DeviceArray<T> up(placed(shape, d.up)), dy(placed(shape, d.dy));
    const DeviceArray<T> two(poisoned<T>(shape.size())), one(poisoned<T>(shape.size()));
    const DeviceArray<float> db_two(placed(vector, old)), db_one(placed(vector, old));
    const DeviceArray<float> scratch(poisoned<float>(parts.size()));
    cuda::activation_backward<T>(p.kind, two.data() + p.start, dy.data() + p.start,
                                 up.data() + p.start, p.rows, p.columns, stream());
    cuda::bias_gradient<T>(db_two.data() + p.start, two.data() + p.start, p.rows, p.columns,
                           scratch.data(), stream());
    cuda::activation_and_bias_backward<T>(p.kind, one.data() + p.start, db_one.data() + p.start,
                                          dy.data() + p.start, up.data() + p.start, p.rows,
                                          p.columns, scratch.data(), stream());
    std::string fault;
    const auto db = taken(vector, db_one.values(), fault);
    compare_bits("d_up", taken(shape, one.values(), fault), taken(shape, two.values(), fault),
                 fault);
    compare_bits("db", db, taken(vector, db_two.values(), fault), fault);
    EXPECT_EQ(fault, "") << p.text();
    EXPECT_FALSE(std::equal(db.begin(), db.end(), old.begin()));
    if (p.seed % 16 != 1) continue;
    p.kind = Activation::swiglu;
    EXPECT_THROW(cuda::activation_and_bias_backward<T>(
                     p.kind, one.data() + p.start, db_one.data() + p.start, dy.data() + p.start,
                     up.data() + p.start, p.rows, p.columns, scratch.data(), stream()),
                 InternalError);
  }
}

// A number that is none has to show in the loss, not to be made a zero on the way.
TYPED_TEST(TunedActivation, KeepsNaN) {
  using T = TypeParam;
  for (const auto kind : kKinds) {
    Problem p;
    p.kind = kind;
    p.rows = 1;
    p.columns = 16;
    p.bias = false;
    Data<T> d(p);
    d.up.assign(d.up.size(), T(1.0f));
    d.up[3] = T(std::numeric_limits<float>::quiet_NaN());
    std::string fault;
    const auto got = run(p, d, fault);
    EXPECT_EQ(fault, "");
    for (size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(std::isnan(static_cast<float>(got.y[j])), j == 3) << j;
      EXPECT_EQ(std::isnan(static_cast<float>(got.d_up[j])), j == 3) << j;
    }
  }
}

}  // namespace
}  // namespace espalier
