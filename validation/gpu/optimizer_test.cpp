// SPDX-License-Identifier: Apache-2.0
#include "cuda/optimizer.hpp"

#include <cmath>
#include <limits>

#include "core/random.hpp"
#include "gpu/device_array.hpp"

namespace espalier {
namespace {

using gpu_test::DeviceArray;
using gpu_test::expect_same_bits;
using gpu_test::poisoned;
using gpu_test::Random;

/// The buffers of an update, on the host.
template <class T>
struct State {
  State(int64_t size, Random& random)
      : master(random.values<float>(size)),
        gradient(random.values<float>(size, -8, 8)),
        first(random.values<float>(size)),
        second(random.values<float>(size, 0, 1)),
        compute(random.values<T>(size)) {}

  std::vector<float> master, gradient, first, second;
  std::vector<T> compute;
};

cuda::AdamWFactors factors() {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kRate = 3e-4;
  constexpr int kUpdate = 7;
  return {0.125f,
          static_cast<float>(kBeta1),
          static_cast<float>(1 - kBeta1),
          static_cast<float>(kBeta2),
          static_cast<float>(1 - kBeta2),
          static_cast<float>(kRate / (1 - std::pow(kBeta1, kUpdate))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, kUpdate))),
          1e-8f,
          static_cast<float>(1 - kRate * 0.1)};
}

enum class Rounding { nearest, stochastic };

/// The state after the kernel.
template <class T>
State<T> on_device(const State<T>& state, const std::vector<cuda::AdamWRun>& runs,
                   const cuda::AdamWFactors& f, Rounding mode = Rounding::nearest,
                   const cuda::StochasticRounding& rounding = {}) {
  const DeviceArray<cuda::AdamWRun> list(runs);
  const DeviceArray<float> master(state.master), gradient(state.gradient), first(state.first),
      second(state.second);
  const DeviceArray<T> compute(state.compute);
  cuda::AdamW<T> call;
  call.runs = list.data();
  call.count = static_cast<int64_t>(runs.size());
  for (const auto& run : runs) call.longest = std::max(call.longest, run.size);
  call.master = mode == Rounding::nearest ? master.data() : nullptr;
  call.gradient = gradient.data();
  call.first = first.data();
  call.second = second.data();
  call.compute = std::is_same_v<T, float> ? nullptr : compute.data();
  call.factors = f;
  if constexpr (std::is_same_v<T, bf16>) {
    if (mode == Rounding::stochastic)
      cuda::adamw_stochastic(call, rounding, gpu_test::stream());
    else
      cuda::adamw(call, gpu_test::stream());
  } else {
    cuda::adamw(call, gpu_test::stream());
  }
  State<T> after = state;
  after.master = master.values();
  after.first = first.values();
  after.second = second.values();
  after.compute = compute.values();
  EXPECT_EQ(std::memcmp(gradient.values().data(), state.gradient.data(),
                        state.gradient.size() * sizeof(float)),
            0);
  return after;
}

/// One element in the arithmetic that the kernel promises; returns the new weight.
float step(const cuda::AdamWFactors& f, bool decays, float weight, float gradient, float& m,
           float& v) {
  const volatile float g = gradient * f.gradient_scale;  // volatile: rounded where it stands
  const volatile float rest = f.rest1 * g;
  const volatile float square = g * g;
  const volatile float rest_square = f.rest2 * square;
  m = std::fma(f.beta1, m, rest);
  v = std::fma(f.beta2, v, rest_square);
  const volatile float numerator = f.rate * m;
  const volatile float quotient = numerator / std::fma(std::sqrt(v), f.root_factor, f.eps);
  return std::fma(decays ? f.keep : 1.0f, weight, -quotient);
}

template <class T>
State<T> on_host(State<T> s, const std::vector<cuda::AdamWRun>& runs, const cuda::AdamWFactors& f) {
  for (const auto& run : runs)
    for (int64_t i = 0; i < run.size; ++i) {
      auto& weight = s.master[static_cast<size_t>(run.master + i)];
      weight = step(f, run.decays, weight, s.gradient[static_cast<size_t>(run.gradient + i)],
                    s.first[static_cast<size_t>(run.moment + i)],
                    s.second[static_cast<size_t>(run.moment + i)]);
      if (!std::is_same_v<T, float>) s.compute[static_cast<size_t>(run.compute + i)] = T(weight);
    }
  return s;
}

template <class T>
void expect_same(const State<T>& got, const State<T>& want, const std::string& where) {
  expect_same_bits(got.master, want.master, where + ", master");
  expect_same_bits(got.first, want.first, where + ", first moment");
  expect_same_bits(got.second, want.second, where + ", second moment");
  expect_same_bits(got.compute, want.compute, where + ", compute copy");
}

/// Runs of many sizes with gaps between; each buffer with its own places.
std::vector<cuda::AdamWRun> random_runs(int64_t* extent, Random& random) {
  std::vector<cuda::AdamWRun> runs;
  int64_t flat = 3, compact = 0;
  for (const int64_t size : {1, 2, 3, 4, 5, 7, 8, 31, 64, 100, 4095, 4096, 4097, 9001, 1}) {
    const bool is_aligned = random.below(2) == 0;
    if (is_aligned) {
      flat = (flat + 7) / 8 * 8;
      compact = (compact + 7) / 8 * 8;
    }
    runs.push_back({flat, flat, compact, flat, size, flat, random.below(2) == 0});
    flat += size + random.below(6);
    compact += size;
  }
  *extent = flat + 5;
  return runs;
}

template <class T>
void check_adamw() {
  Random random(21);
  int64_t extent = 0;
  const auto runs = random_runs(&extent, random);
  const State<T> before(extent, random);
  const auto f = factors();
  const State<T> after = on_device(before, runs, f);
  expect_same(after, on_host(before, runs, f), "runs");

  // In double, by the formulas of the paper's algorithm.
  for (const auto& run : runs)
    for (int64_t i = 0; i < run.size; ++i) {
      const auto value = [i](const std::vector<float>& x, int64_t at) {
        return static_cast<double>(x[static_cast<size_t>(at + i)]);
      };
      const double g = 0.125 * value(before.gradient, run.gradient);
      const double m = 0.9 * value(before.first, run.moment) + 0.1 * g;
      const double v = 0.95 * value(before.second, run.moment) + 0.05 * g * g;
      const double w =
          value(before.master, run.master) * (run.decays ? 1 - 3e-5 : 1) -
          3e-4 * (m / (1 - std::pow(0.9, 7))) / (std::sqrt(v / (1 - std::pow(0.95, 7))) + 1e-8);
      ASSERT_NEAR(value(after.first, run.moment), m, 1e-6);
      ASSERT_NEAR(value(after.second, run.moment), v, 1e-6 * (1 + v));
      ASSERT_NEAR(value(after.master, run.master), w, 2e-7);
    }
}

TEST(AdamW, HasTheBitsOfItsFormulaFp32) {
  check_adamw<float>();
}
TEST(AdamW, HasTheBitsOfItsFormulaBf16) {
  check_adamw<bf16>();
}
TEST(AdamW, HasTheBitsOfItsFormulaFp16) {
  check_adamw<fp16>();
}

/// One run of `size` elements at `start`, in pieces of `piece`.
std::vector<cuda::AdamWRun> pieces(int64_t start, int64_t size, int64_t piece, int64_t element) {
  std::vector<cuda::AdamWRun> runs;
  for (int64_t i = 0; i < size; i += piece)
    runs.push_back(
        {start + i, start + i, start + i, start + i, std::min(piece, size - i), element + i, true});
  return runs;
}

TEST(AdamW, CutsChangeNoBit) {
  Random random(22);
  const State<bf16> before(9000, random);
  const auto whole = on_device(before, pieces(5, 8190, 8190, 0), factors());
  for (const int64_t piece : {1, 33, 4096})
    expect_same(on_device(before, pieces(5, 8190, piece, 0), factors()), whole,
                fmt::format("pieces of {}", piece));
}

TEST(AdamW, DoesNothingWithoutRuns) {
  Random random(23);
  const State<float> before(64, random);
  expect_same(on_device(before, {}, factors()), before, "no runs");
}

/// What is left of the fp32 weight, its 16 random bits given.
uint16_t rounded_up_or_down(float w, uint32_t random) {
  const uint32_t bits = float_bits(w);
  if (std::isnan(w)) return bf16::round(w);
  const bool up = (bits & 0xffffu) + random >= 0x10000u;
  return static_cast<uint16_t>((bits >> 16) + (up ? 1 : 0));
}

uint32_t random_half(const cuda::StochasticRounding& r, int64_t element) {
  const Philox4 block = philox(r.seed, r.purpose, static_cast<uint64_t>(element / 8));
  const auto place = static_cast<size_t>(element % 8);
  return place % 2 == 0 ? block.v[place / 2] & 0xffffu : block.v[place / 2] >> 16;
}

State<bf16> stochastic_on_host(State<bf16> s, const std::vector<cuda::AdamWRun>& runs,
                               const cuda::AdamWFactors& f, const cuda::StochasticRounding& r) {
  for (const auto& run : runs)
    for (int64_t i = 0; i < run.size; ++i) {
      bf16& weight = s.compute[static_cast<size_t>(run.compute + i)];
      const float w =
          step(f, run.decays, float(weight), s.gradient[static_cast<size_t>(run.gradient + i)],
               s.first[static_cast<size_t>(run.moment + i)],
               s.second[static_cast<size_t>(run.moment + i)]);
      weight.bits = rounded_up_or_down(w, random_half(r, run.element + i));
    }
  return s;
}

constexpr cuda::StochasticRounding kRounding{0x1234567890abcdefull, 0xfedcba9876543210ull};

TEST(StochasticAdamW, HasTheBitsOfItsFormula) {
  Random random(24);
  int64_t extent = 0;
  const auto runs = random_runs(&extent, random);
  const State<bf16> before(extent, random);
  const auto after = on_device(before, runs, factors(), Rounding::stochastic, kRounding);
  expect_same(after, stochastic_on_host(before, runs, factors(), kRounding), "runs");
  // Another purpose, other bits: or the numbers would not matter.
  const auto other = on_device(before, runs, factors(), Rounding::stochastic, {kRounding.seed, 1});
  int different = 0;
  for (size_t i = 0; i < other.compute.size(); ++i)
    different += other.compute[i].bits != after.compute[i].bits;
  EXPECT_GT(different, extent / 10);
}

TEST(StochasticAdamW, CutsChangeNoBitButNumbersDo) {
  Random random(25);
  const State<bf16> before(9000, random);
  for (const int64_t start : {0, 5}) {
    const auto run = [&](int64_t piece, int64_t element) {
      return on_device(before, pieces(start, 8190, piece, element), factors(), Rounding::stochastic,
                       kRounding);
    };
    const auto whole = run(8190, 1000000007);
    for (const int64_t piece : {1, 8, 33, 4096})
      expect_same(run(piece, 1000000007), whole, fmt::format("pieces of {}", piece));
    const auto shifted = run(8190, 1000000008);
    int different = 0;
    for (size_t i = 0; i < whole.compute.size(); ++i)
      different += whole.compute[i].bits != shifted.compute[i].bits;
    EXPECT_GT(different, 800);
  }
}

// No gradient, no moments: the weight is rounded again, from keep * weight.
TEST(StochasticAdamW, IsUnbiased) {
  constexpr int64_t kSize = 200000;
  Random random(26);
  State<bf16> before(1, random);
  before.gradient.assign(kSize, 0.0f);
  before.first = before.second = before.master = before.gradient;
  before.compute.assign(kSize, bf16(1.0f));
  cuda::AdamWFactors f = factors();
  f.keep = 1.0f + 0x1p-7f * 0.3f;
  const auto after =
      on_device(before, pieces(0, kSize, 1 << 15, 0), f, Rounding::stochastic, kRounding);
  int64_t up = 0;
  for (const bf16 w : after.compute) {
    ASSERT_TRUE(float(w) == 1.0f || float(w) == 1.0f + 0x1p-7f) << float(w);
    up += float(w) > 1.0f;
  }
  const double chance = (static_cast<double>(f.keep) - 1) / 0x1p-7;
  const double sigma = std::sqrt(kSize * chance * (1 - chance));
  EXPECT_NEAR(static_cast<double>(up), kSize * chance, 4 * sigma);
}

TEST(StochasticAdamW, KeepsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Random random(27);
  State<bf16> before(64, random);
  before.compute[3] = bf16(kInfinity);
  before.compute[4] = bf16(-kInfinity);
  before.compute[5].bits = 0x7fff;
  before.gradient[6] = kInfinity;
  before.gradient[7] = std::numeric_limits<float>::quiet_NaN();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto after =
        on_device(before, pieces(0, 64, 64, 0), factors(), Rounding::stochastic, {seed, 2});
    EXPECT_EQ(float(after.compute[3]), kInfinity);
    EXPECT_EQ(float(after.compute[4]), -kInfinity);
    for (const size_t i : {5, 6, 7}) EXPECT_TRUE(std::isnan(float(after.compute[i]))) << i;
    for (size_t i = 8; i < 64; ++i) EXPECT_TRUE(std::isfinite(float(after.compute[i]))) << i;
  }
}

}  // namespace
}  // namespace espalier
