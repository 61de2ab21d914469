// SPDX-License-Identifier: Apache-2.0
// Tuned rotary embedding, bias and its gradient, against double.
#include "cuda/pointwise.hpp"

#include "gpu/device_rows.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class TunedPointwise : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(TunedPointwise, Types);

struct RopeProblem {
  int64_t tokens = 0, heads = 0, head_dim = 0, start = 0, rest = 0;  // rest: of a token's row
  int64_t table_start = 0;
  bool interleaved = false, inverse = false;
  uint64_t seed = 1;

  RowShape shape() const {
    return {tokens, heads * head_dim, start, 1, heads * head_dim + rest, 0};
  }
  std::string text() const {
    return fmt::format("{}; heads of {}; table from {}; interleaved {}, inverse {}", shape().text(),
                       head_dim, table_start, interleaved, inverse);
  }
};

constexpr int64_t kPositions = 50;

template <class T>
struct RopeData {
  explicit RopeData(const RopeProblem& p) {
    Random random(p.seed);
    x = random.values<T>(p.tokens * p.heads * p.head_dim, -3, 3);
    table = random.values<float>(kPositions * p.head_dim);
    for (int64_t t = 0; t < p.tokens; ++t)
      positions.push_back(static_cast<int32_t>(random.below(kPositions)));
  }
  std::vector<T> x;
  std::vector<float> table;
  std::vector<int32_t> positions;
};

template <class T>
std::vector<T> run_rope(const RopeProblem& p, const RopeData<T>& d, std::string& fault) {
  const DeviceArray<T> x(placed(p.shape(), d.x));
  const DeviceArray<float> table(placed(dense(kPositions, p.head_dim, p.table_start), d.table));
  const DeviceArray<int32_t> positions(d.positions);
  cuda::Rope<T> call;
  call.data = x.data() + p.start;
  call.stride = p.shape().outer;
  call.heads = p.heads;
  call.head_dim = p.head_dim;
  call.tokens = p.tokens;
  call.table = table.data() + p.table_start;
  call.positions = positions.data();
  call.interleaved = p.interleaved;
  call.inverse = p.inverse;
  cuda::rope(call, stream());
  return taken(p.shape(), x.values(), fault);
}

/// `sign`: of the sines here, 1 unless the comparison is on trial.
template <class T>
std::string check_rope(const RopeProblem& p, double sign) {
  std::string fault;
  const RopeData<T> d(p);
  const auto got = run_rope(p, d, fault);
  const int64_t dim = p.head_dim, half = dim / 2;
  std::vector<double> want(d.x.size()), slack(d.x.size());
  for (int64_t t = 0; t < p.tokens; ++t)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < half; ++i) {
        const float* angle = d.table.data() + d.positions[static_cast<size_t>(t)] * dim + i;
        const double c = static_cast<double>(angle[0]);
        const double s = static_cast<double>(angle[half]) * (p.inverse ? -sign : sign);
        const int64_t first = (t * p.heads + h) * dim;
        const auto at = static_cast<size_t>(first + (p.interleaved ? 2 * i : i));
        const size_t partner = at + static_cast<size_t>(p.interleaved ? 1 : half);
        const double a = static_cast<double>(d.x[at]), b = static_cast<double>(d.x[partner]);
        want[at] = a * c - b * s;
        want[partner] = b * c + a * s;
        slack[at] = slack[partner] = 3e-7 * (std::abs(a) + std::abs(b));
      }
  compare("x", got, want, slack, fault);
  return fault;
}

std::vector<RopeProblem> rope_problems() {
  std::vector<RopeProblem> all;
  uint64_t seed = 0;
  for (const int64_t dim : {2, 6, 16, 64, 80, 96, 128, 256})
    for (const bool interleaved : {false, true})
      for (int variant = 0; variant < 4; ++variant) {
        RopeProblem p;
        p.head_dim = dim;
        p.interleaved = interleaved;
        p.inverse = variant % 2 == 1;
        p.tokens = variant == 3 ? 1 : 23;
        p.heads = variant == 0 ? 12 : variant == 1 ? 1 : 5;
        p.rest = variant == 2 ? 3 : 2 * dim;
        p.start = variant == 1 ? 1 : 8;
        p.table_start = variant == 3 ? 1 : 0;
        p.seed = ++seed;
        all.push_back(p);
      }
  return all;
}

TYPED_TEST(TunedPointwise, RopeIsThatOfDouble) {
  for (const auto& p : rope_problems()) EXPECT_EQ(check_rope<TypeParam>(p, 1.0), "") << p.text();
}

TYPED_TEST(TunedPointwise, RopeTheOtherWayRoundIsNoticed) {
  RopeProblem p;
  p.tokens = 3;
  p.heads = 2;
  p.head_dim = 64;
  EXPECT_EQ(check_rope<TypeParam>(p, 1.0), "");
  EXPECT_NE(check_rope<TypeParam>(p, -1.0), "");
}

TYPED_TEST(TunedPointwise, RopeDoesNotDependOnThePlace) {
  for (auto p : rope_problems()) {
    const RopeData<TypeParam> d(p);
    std::string fault;
    p.start = 0, p.rest = 2 * p.head_dim, p.table_start = 0;
    const auto first = run_rope(p, d, fault);
    p.start = 3, p.rest = 1, p.table_start = 1;
    compare_bits("x of unaligned rows", run_rope(p, d, fault), first, fault);
    EXPECT_EQ(fault, "") << p.text();
  }
}

struct BiasProblem {
  int64_t rows = 0, columns = 0, start = 0;
  uint64_t seed = 1;
  RowShape shape() const { return dense(rows, columns, start); }
  RowShape vector() const { return dense(1, columns, start); }
};

std::vector<BiasProblem> bias_problems() {
  std::vector<BiasProblem> all;
  uint64_t seed = 0;
  for (const int64_t n : {1, 7, 8, 33, 100, 256, 768, 1600, 4097})
    for (const int64_t rows : {1, 9, 64, 100})
      for (const int64_t start : {0, 1}) all.push_back({rows, n, start, ++seed});
  for (const int64_t rows : {4095, 4096, 4097, 9000}) all.push_back({rows, 24, 0, ++seed});
  return all;
}

TYPED_TEST(TunedPointwise, AddBiasIsThatOfFp32) {
  using T = TypeParam;
  for (const auto& p : bias_problems()) {
    Random random(p.seed);
    const auto x = random.values<T>(p.rows * p.columns, -3, 3), bias = random.values<T>(p.columns);
    const DeviceArray<T> data(placed(p.shape(), x)), biases(placed(p.vector(), bias));
    cuda::add_bias<T>(data.data() + p.start, biases.data() + p.start, p.rows, p.columns, stream());
    std::string fault;
    const auto got = taken(p.shape(), data.values(), fault);
    std::vector<T> want;
    for (size_t i = 0; i < x.size(); ++i)
      want.push_back(T(static_cast<float>(x[i]) +
                       static_cast<float>(bias[i % static_cast<size_t>(p.columns)])));
    compare_bits("x", got, want, fault);
    EXPECT_EQ(fault, "") << p.shape().text();
  }
}

template <class T>
std::vector<float> run_bias_gradient(const BiasProblem& p, const std::vector<T>& dy,
                                     const std::vector<float>& db, std::string& fault) {
  const int64_t scratch = cuda::bias_gradient_scratch(p.rows, p.columns);
  EXPECT_LE(scratch, 64 * p.columns);
  const RowShape sums = dense(1, scratch);
  const DeviceArray<T> data(placed(p.shape(), dy));
  const DeviceArray<float> target(placed(p.vector(), db)), partial(poisoned<float>(sums.size()));
  cuda::bias_gradient<T>(target.data() + p.start, data.data() + p.start, p.rows, p.columns,
                         partial.data(), stream());
  taken(sums, partial.values(), fault);
  return taken(p.vector(), target.values(), fault);
}

/// `scale`: of dy here, 1 unless the comparison is on trial.
template <class T>
std::string check_bias_gradient(const BiasProblem& p, double scale) {
  Random random(p.seed);
  const auto dy = random.values<T>(p.rows * p.columns, -1, 3);
  const auto db = random.values<float>(p.columns);
  std::string fault;
  const auto got = run_bias_gradient(p, dy, db, fault);
  std::vector<double> want(db.begin(), db.end()), slack(db.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t j = i % static_cast<size_t>(p.columns);
    want[j] += scale * static_cast<double>(dy[i]);
    slack[j] += 1e-6 * std::abs(static_cast<double>(dy[i]));
  }
  compare("db", got, want, slack, fault);
  return fault;
}

TYPED_TEST(TunedPointwise, BiasGradientIsThatOfDouble) {
  for (const auto& p : bias_problems())
    EXPECT_EQ(check_bias_gradient<TypeParam>(p, 1.0), "") << p.shape().text();
}

TYPED_TEST(TunedPointwise, BiasGradientOfAnotherScaleIsNoticed) {
  EXPECT_EQ(check_bias_gradient<TypeParam>({100, 40, 0, 1}, 1.0), "");
  EXPECT_NE(check_bias_gradient<TypeParam>({100, 40, 0, 1}, 2.0), "");
}

TYPED_TEST(TunedPointwise, BiasGradientHasOneOrder) {
  using T = TypeParam;
  for (auto p : bias_problems()) {
    Random random(p.seed);
    const auto dy = random.values<T>(p.rows * p.columns, -1, 3);
    const auto db = random.values<float>(p.columns);
    std::string fault;
    p.start = 0;
    const auto first = run_bias_gradient(p, dy, db, fault);
    compare_bits("db of the second run", run_bias_gradient(p, dy, db, fault), first, fault);
    p.start = 1;
    compare_bits("db of unaligned rows", run_bias_gradient(p, dy, db, fault), first, fault);
    EXPECT_EQ(fault, "") << p.shape().text();
  }
}

}  // namespace
}  // namespace espalier
