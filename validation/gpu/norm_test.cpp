// SPDX-License-Identifier: Apache-2.0
// The tuned norms against plain sums in double.
#include "gpu/norm_rows.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class TunedNorm : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(TunedNorm, Types);

/// What a call is given.
struct NormProblem {
  RowShape x, y;
  bool centred = true, bias = true;
  float eps = 1e-3f;
  int64_t start = 0;  // of weight, bias
  uint64_t seed = 1;

  std::string text() const {
    return fmt::format("x {}; y {}; centred {}, bias {}", x.text(), y.text(), centred, bias);
  }
};

/// y and the statistics of rows x, in double, against what the device made. `eps`: what they are
/// computed with here.
template <class T>
void compare_forward(const NormProblem& p, double eps, const std::vector<T>& x,
                     const std::vector<T>& weight, const std::vector<T>& bias,
                     const std::vector<T>& y, const std::vector<float>& statistics,
                     std::string& fault) {
  const int64_t n = p.x.columns;
  std::vector<double> want, slack, wanted_statistics, statistics_slack;
  for (int64_t r = 0; r < p.x.rows; ++r) {
    const Moments m = moments(x.data() + r * n, n, p.centred, eps);
    double largest = 0;
    for (int64_t j = 0; j < n; ++j) {
      const double scaled = static_cast<double>(x[static_cast<size_t>(r * n + j)]) * m.rstd;
      const double w = static_cast<double>(weight[static_cast<size_t>(j)]);
      const double b = p.bias ? static_cast<double>(bias[static_cast<size_t>(j)]) : 0.0;
      largest = std::max(largest, std::abs(scaled));
      want.push_back((scaled - m.mean * m.rstd) * w + b);
      // The rounding of fp32 sums of terms as large as the largest.
      slack.push_back(2e-6 * ((largest + std::abs(m.mean) * m.rstd) * std::abs(w) + std::abs(b)));
    }
    wanted_statistics.insert(wanted_statistics.end(), {m.mean, m.rstd});
    const double relative = 1e-6 * (1 + largest);
    statistics_slack.insert(statistics_slack.end(), {relative / m.rstd, relative * m.rstd});
  }
  compare("y", y, want, slack, fault);
  compare("statistics", statistics, wanted_statistics, statistics_slack, fault);
}

/// The outputs of one call, without gaps.
template <class T>
struct Forwarded {
  std::vector<T> y, x;
  std::vector<float> statistics;
};

template <class T>
struct ForwardData {
  explicit ForwardData(const NormProblem& p) {
    Random random(p.seed);
    x = draw_rows<T>(random, p.x.rows, p.x.columns);
    delta = draw_rows<T>(random, p.x.rows, p.x.columns);
    weight = random.values<T>(p.x.columns, -2, 2);
    bias = random.values<T>(p.x.columns);
    delta_bias = random.values<T>(p.x.columns);
  }
  std::vector<T> x, delta, weight, bias, delta_bias;
};

template <class T>
Forwarded<T> run_forward(const NormProblem& p, const ForwardData<T>& d, std::string& fault) {
  const RowShape vector = dense(1, p.x.columns, p.start);
  const DeviceArray<T> x(placed(p.x, d.x)), y(poisoned<T>(p.y.size()));
  const DeviceArray<T> weight(placed(vector, d.weight)), bias(placed(vector, d.bias));
  const DeviceArray<float> statistics(poisoned<float>(dense(p.x.rows, 2).size()));
  cuda::NormForward<T> call;
  call.y = rows_at<T>(y.data(), p.y);
  call.x = rows_at<const T>(x.data(), p.x);
  call.statistics = statistics.data();
  call.weight = weight.data() + p.start;
  if (p.bias) call.bias = bias.data() + p.start;
  call.eps = p.eps;
  call.centred = p.centred;
  cuda::norm_forward(call, stream());
  Forwarded<T> out;
  out.y = taken(p.y, y.values(), fault);
  out.statistics = taken(dense(p.x.rows, 2), statistics.values(), fault);
  return out;
}

template <class T>
std::string check_forward(const NormProblem& p, double eps) {
  std::string fault;
  const ForwardData<T> d(p);
  const auto out = run_forward(p, d, fault);
  compare_forward(p, eps, d.x, d.weight, d.bias, out.y, out.statistics, fault);
  return fault;
}

constexpr int64_t kColumns[] = {1, 7, 33, 64, 96, 100, 128, 768, 1600, 4097, 8192, 16384, 33000};

/// Every combination of kinds, alternating with the shapes.
std::vector<NormProblem> forward_problems() {
  std::vector<NormProblem> all;
  uint64_t seed = 0;
  for (const int64_t n : kColumns) {
    const int64_t rows = n > 4000 ? 3 : n > 500 ? 10 : 41;
    for (int variant = 0; variant < 4; ++variant) {
      NormProblem p;
      p.seed = ++seed;
      p.centred = variant % 2 == 0;
      p.bias = variant < 2;
      switch (variant) {
        case 0: p.x = dense(rows, n), p.y = p.x; break;
        case 1: p.x = dense(rows, n, 1), p.y = dense(rows, n, 3), p.start = 1; break;
        case 2: p.x = heads(rows, n, 5, 8, 24), p.y = dense(rows, n, 16); break;
        default: p.x = heads(rows, n, 3, 2, 5), p.y = heads(rows, n, 4, 0, 1); break;
      }
      all.push_back(p);
    }
  }
  return all;
}

TYPED_TEST(TunedNorm, ForwardIsThatOfDouble) {
  for (const auto& p : forward_problems())
    EXPECT_EQ(check_forward<TypeParam>(p, p.eps), "") << p.text();
}

TYPED_TEST(TunedNorm, ForwardWithAnotherEpsIsNoticed) {
  NormProblem p;
  p.x = p.y = dense(5, 100);
  EXPECT_EQ(check_forward<TypeParam>(p, p.eps), "");
  EXPECT_NE(check_forward<TypeParam>(p, 400 * p.eps), "");
}

// A row has the same bits wherever it lies, and however many rows there are.
TYPED_TEST(TunedNorm, ForwardDoesNotDependOnThePlace) {
  using T = TypeParam;
  for (const int64_t n : {64, 128, 160, 768, 1600, 4096, 8192, 16384}) {
    NormProblem p;
    p.x = p.y = dense(6, n);
    const ForwardData<T> d(p);
    std::string fault;
    const auto whole = run_forward(p, d, fault), again = run_forward(p, d, fault);
    p.x = heads(6, n, 2, 1, 3);
    p.y = dense(6, n, 1);
    p.start = 1;
    const auto apart = run_forward(p, d, fault);
    compare_bits("y of the second run", again.y, whole.y, fault);
    compare_bits("y of unaligned rows", apart.y, whole.y, fault);
    compare_bits("statistics of unaligned rows", apart.statistics, whole.statistics, fault);
    EXPECT_EQ(fault, "") << n << " columns";
  }
}

enum class Place { apart, x_is_stream };

template <class T>
struct ResidualRun {
  Forwarded<T> out;
  std::vector<T> x_of_add;   // residual_add's
  std::vector<T> y_of_pair;  // the norm of that
};

template <class T>
ResidualRun<T> run_residual(const NormProblem& p, const ForwardData<T>& d, bool delta_bias,
                            Place place, std::string& fault) {
  const int64_t rows = p.x.rows, n = p.x.columns;
  const RowShape vector = dense(1, n, p.start);
  const DeviceArray<T> from(placed(p.x, d.x)), other(placed(p.x, d.x)), delta(placed(p.x, d.delta));
  const DeviceArray<T> weight(placed(vector, d.weight)), bias(placed(vector, d.bias)),
      change(placed(vector, d.delta_bias));
  const DeviceArray<T> x(poisoned<T>(p.x.size())), y(poisoned<T>(p.x.size())),
      y_of_pair(poisoned<T>(p.x.size()));
  const DeviceArray<float> statistics(poisoned<float>(dense(rows, 2).size()));
  T* const sum = place == Place::apart ? x.data() : from.data();
  T* const sum_of_add = place == Place::apart ? x.data() : other.data();
  const T* change_at = delta_bias ? change.data() + p.start : nullptr;

  ResidualRun<T> run;
  // The addition by itself first: what it leaves must not be what the fused form is credited for.
  cuda::residual_add<T>(sum_of_add + p.x.start, other.data() + p.x.start, delta.data() + p.x.start,
                        change_at, rows, n, stream());
  run.x_of_add = taken(p.x, place == Place::apart ? x.values() : other.values(), fault);
  const DeviceArray<T> input(placed(p.x, run.x_of_add));
  cuda::NormForward<T> pair;
  pair.y = rows_at<T>(y_of_pair.data(), p.x);
  pair.x = rows_at<const T>(input.data(), p.x);
  pair.statistics = statistics.data();
  pair.weight = weight.data() + p.start;
  if (p.bias) pair.bias = bias.data() + p.start;
  pair.eps = p.eps;
  pair.centred = p.centred;
  cuda::norm_forward(pair, stream());
  run.y_of_pair = taken(p.x, y_of_pair.values(), fault);

  const DeviceArray<T> clean(poisoned<T>(p.x.size()));
  cuda::ResidualNormForward<T> call;
  call.x = place == Place::apart ? clean.data() + p.x.start : sum + p.x.start;
  call.y = y.data() + p.x.start;
  call.statistics = statistics.data();
  call.stream = from.data() + p.x.start;
  call.delta = delta.data() + p.x.start;
  call.delta_bias = change_at;
  call.weight = pair.weight;
  call.bias = pair.bias;
  call.rows = rows;
  call.columns = n;
  call.eps = p.eps;
  call.centred = p.centred;
  cuda::residual_norm_forward(call, stream());
  run.out.x = taken(p.x, place == Place::apart ? clean.values() : from.values(), fault);
  run.out.y = taken(p.x, y.values(), fault);
  run.out.statistics = taken(dense(rows, 2), statistics.values(), fault);
  return run;
}

template <class T>
std::string check_residual(const NormProblem& p, bool delta_bias, Place place, double eps) {
  std::string fault;
  const ForwardData<T> d(p);
  const auto run = run_residual(p, d, delta_bias, place, fault);
  std::vector<T> sum;
  for (size_t i = 0; i < d.x.size(); ++i) {
    const auto j = i % static_cast<size_t>(p.x.columns);
    float change = static_cast<float>(d.delta[i]);
    if (delta_bias) change += static_cast<float>(d.delta_bias[j]);
    sum.push_back(T(static_cast<float>(d.x[i]) + change));
  }
  compare_bits("x", run.out.x, sum, fault);
  compare_bits("x of residual_add", run.x_of_add, sum, fault);
  compare_bits("y of the pair", run.y_of_pair, run.out.y, fault);
  compare_forward(p, eps, sum, d.weight, d.bias, run.out.y, run.out.statistics, fault);
  return fault;
}

TYPED_TEST(TunedNorm, ResidualFormIsThatOfDoubleAndOfThePair) {
  uint64_t seed = 0;
  for (const int64_t n : kColumns) {
    const int64_t rows = n > 4000 ? 2 : n > 500 ? 5 : 37;
    for (int variant = 0; variant < 4; ++variant) {
      NormProblem p;
      p.seed = ++seed;
      p.centred = variant % 2 == 0;
      p.bias = variant < 2;
      p.x = dense(rows, n, variant == 3 ? 1 : 0);
      p.start = variant == 1 ? 1 : 0;
      const Place place = variant == 2 ? Place::x_is_stream : Place::apart;
      EXPECT_EQ(check_residual<TypeParam>(p, variant != 0, place, p.eps), "")
          << p.text() << ", variant " << variant;
    }
  }
}

TYPED_TEST(TunedNorm, ResidualFormWithAnotherEpsIsNoticed) {
  NormProblem p;
  p.x = dense(5, 100);
  EXPECT_EQ(check_residual<TypeParam>(p, true, Place::apart, p.eps), "");
  EXPECT_NE(check_residual<TypeParam>(p, true, Place::apart, 400 * p.eps), "");
}

}  // namespace
}  // namespace espalier
