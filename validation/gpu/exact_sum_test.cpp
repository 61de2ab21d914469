// SPDX-License-Identifier: Apache-2.0
// Words of the device against those of ExactSum on the host: the same, digit for digit.
#include "core/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/optimizer.hpp"
#include "gpu/device_array.hpp"

namespace espalier {
namespace {

using gpu_test::DeviceArray;
using gpu_test::Random;
using Words = std::vector<uint64_t>;

constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kMost = std::numeric_limits<double>::max();

Words zeros() {
  return Words(static_cast<size_t>(cuda::kExactSumWords), 0);
}

// What the device makes of `words`, its sums of lists one after the other.
Words on_device(const std::vector<std::vector<double>>& lists, const Words& words = zeros()) {
  const DeviceArray<uint64_t> sum(words);
  for (const auto& list : lists) {
    const DeviceArray<double> values(list);
    cuda::exact_sum(sum.data(), values.data(), static_cast<int64_t>(list.size()),
                    gpu_test::stream());
    device::Stream::compute().synchronize();
  }
  return sum.values();
}

ExactSum with_carries(const Words& words) {
  ExactSum sum;
  int64_t* to = sum.words();
  for (size_t i = 0; i < ExactSum::kWords; ++i) to[i] = static_cast<int64_t>(words[i]);
  return sum;
}

ExactSum on_host(const std::vector<double>& values) {
  ExactSum sum;
  for (const double x : values) sum.add(x);
  return sum;
}

void expect_equal(ExactSum got, ExactSum want, const std::string& where) {
  const int64_t *a = got.words(), *b = want.words();
  for (int64_t i = 0; i < ExactSum::kWords; ++i) EXPECT_EQ(a[i], b[i]) << where << ": word " << i;
}

// Any bits that are a finite number: both signs, all exponents, subnormals too.
std::vector<double> any_doubles(Random& random, int64_t count) {
  std::vector<double> values;
  while (static_cast<int64_t>(values.size()) < count) {
    const uint64_t bits = uint64_t{random.word()} << 32 | random.word();
    double x = 0;
    std::memcpy(&x, &bits, sizeof x);
    if (std::isfinite(x)) values.push_back(x);
  }
  return values;
}

TEST(ExactSumKernel, HasTheWordsOfTheHost) {
  Random random(41);
  for (const int64_t count : {1, 2, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 5000, 70001}) {
    auto values = any_doubles(random, count);
    if (count > 100) {
      values[7] = values[40] = 0.0;
      values[8] = -0.0;
      values[20] = kLeast;
      values[21] = -3 * kLeast;
      values[50] = kMost;
      values[51] = -kMost;
      values[99] = std::numeric_limits<double>::min();
      values[100] = 0x1.fffffffffffffp-1022;
    }
    const Words words = on_device({values});
    expect_equal(with_carries(words), on_host(values), fmt::format("{} values", count));
    EXPECT_EQ(words.back(), 0u);
  }
}

// Exponents as a gradient has them: all threads meet in the same few digits.
TEST(ExactSumKernel, HasTheWordsOfTheHostWhereDigitsAreShared) {
  Random random(42);
  for (const double spread : {0.0, 0.5, 20.0}) {
    std::vector<double> values(300000);
    for (double& x : values) x = std::exp(-25 + random.uniform(-spread, spread));
    expect_equal(with_carries(on_device({values})), on_host(values), fmt::format("{}", spread));
  }
}

// The greatest digits there are, so that carries come from every one; both signs.
TEST(ExactSumKernel, CarriesArePassedOn) {
  for (const double x : {0x1.fffffffffffffp+10, -0x1.fffffffffffffp+10, kMost, -kMost, -kLeast})
    expect_equal(with_carries(on_device({std::vector<double>(100000, x)})),
                 on_host(std::vector<double>(100000, x)), fmt::format("{}", x));
}

TEST(ExactSumKernel, AddsToWhatIsThere) {
  Random random(43);
  const auto a = any_doubles(random, 3000), b = any_doubles(random, 17);
  auto both = a;
  both.insert(both.end(), b.begin(), b.end());
  expect_equal(with_carries(on_device({a, b})), on_host(both), "two lists");
  Words words = zeros();
  words[3] = 5;
  words[9] = static_cast<uint64_t>(-7);
  const Words same = on_device({{}}, words);
  EXPECT_EQ(same, words);
}

TEST(ExactSumKernel, CountsWhatIsNotFiniteAndFindsTheFirst) {
  Random random(44);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t count : {1, 200, 1500, 40000}) {
    const auto sound = any_doubles(random, count);
    EXPECT_EQ(on_device({sound}).back(), 0u);
    for (int round = 0; round < 6; ++round) {
      auto values = sound;
      int64_t first = count;
      for (int64_t i = 0; i <= round; ++i) {
        const int64_t at = round == 0 ? count - 1 : random.below(count);
        values[static_cast<size_t>(at)] = i % 3 == 0 ? kNan : i % 3 == 1 ? HUGE_VAL : -HUGE_VAL;
        first = std::min(first, at);
      }
      const Words words = on_device({values});
      expect_equal(with_carries(words), on_host(values), fmt::format("{} values", count));
      EXPECT_EQ(words.back(), static_cast<uint64_t>(count - first));
    }
    auto values = sound;  // all from one on, so that its thread meets others
    const int64_t first = count / 7;
    std::fill(values.begin() + first, values.end(), HUGE_VAL);
    EXPECT_EQ(on_device({values}).back(), static_cast<uint64_t>(count - first));
  }
}

}  // namespace
}  // namespace espalier
