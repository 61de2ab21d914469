// SPDX-License-Identifier: Apache-2.0
#include "cuda/classifier.hpp"

#include <cmath>
#include <limits>

#include "gpu/device_array.hpp"
#include "parallel/tree_sum.hpp"

namespace espalier {
namespace {

using gpu_test::DeviceArray;
using gpu_test::expect_same_bits;
using gpu_test::poisoned;
using gpu_test::Random;

/// Half an ulp, relative.
template <class T>
constexpr double kRounding = std::is_same_v<T, float>  ? 0x1p-24
                             : std::is_same_v<T, bf16> ? 0x1p-8
                                                       : 0x1p-11;
/// Below which T has no more digits.
template <class T>
constexpr double kTiny = std::is_same_v<T, fp16> ? 0x1p-24 : 0x1p-126;

/// Rows of logits, `stride` elements apart from element `start` on; all else is NaN.
template <class T>
struct Logits {
  Logits(int64_t rows_in, int64_t columns_in, int64_t stride_in, int64_t start_in)
      : rows(rows_in),
        columns(columns_in),
        stride(stride_in),
        start(start_in),
        values(poisoned<T>(start + rows * stride + 9)) {}
  T& at(int64_t t, int64_t v) { return values[static_cast<size_t>(start + t * stride + v)]; }
  double z(int64_t t, int64_t v) { return static_cast<double>(at(t, v)); }

  int64_t rows, columns, stride, start;
  std::vector<T> values;
};

template <class T>
Logits<T> random_logits(int64_t rows, int64_t columns, int64_t stride, int64_t start,
                        Random& random) {
  Logits<T> logits(rows, columns, stride, start);
  for (int64_t t = 0; t < rows; ++t) {
    const double middle = random.uniform(-20, 20), width = random.uniform(0.1, 8);
    for (int64_t v = 0; v < columns; ++v)
      logits.at(t, v) = T(static_cast<float>(middle + random.uniform(-width, width)));
  }
  return logits;
}

std::vector<int32_t> random_targets(int64_t rows, int64_t columns, Random& random) {
  std::vector<int32_t> targets;
  for (int64_t t = 0; t < rows; ++t)
    targets.push_back(t % 4 == 3 ? -1 : static_cast<int32_t>(random.below(columns)));
  if (rows > 2) {
    targets[0] = 0;
    targets[2] = static_cast<int32_t>(columns - 1);
  }
  return targets;
}

/// Greatest z, log of the sum of exp(z), in double.
struct Reference {
  double greatest = -std::numeric_limits<double>::infinity(), log_sum = 0;
};
template <class T>
Reference reference(Logits<T>& logits, int64_t t, double scale) {
  Reference r;
  for (int64_t v = 0; v < logits.columns; ++v)
    r.greatest = std::max(r.greatest, scale * logits.z(t, v));
  double sum = 0;
  for (int64_t v = 0; v < logits.columns; ++v) sum += std::exp(scale * logits.z(t, v) - r.greatest);
  r.log_sum = r.greatest + std::log(sum);
  return r;
}

/// Checks losses and the gradients in `got` of the logits `before`.
template <class T>
void expect_cross_entropy(Logits<T>& before, Logits<T>& got, const std::vector<float>& losses,
                          const std::vector<int32_t>& targets, double scale, double slope,
                          const std::string& where) {
  for (int64_t t = 0; t < before.rows; ++t) {
    const int32_t target = targets[static_cast<size_t>(t)];
    const double loss = static_cast<double>(losses[static_cast<size_t>(t)]);
    if (target < 0) {
      ASSERT_EQ(loss, 0) << where << ", row " << t;
      for (int64_t v = 0; v < before.columns; ++v)
        ASSERT_TRUE(gpu_test::same_bits(got.at(t, v), T(0.0f))) << where << ", row " << t;
      continue;
    }
    const Reference r = reference(before, t, scale);
    ASSERT_NEAR(loss, r.log_sum - scale * before.z(t, target), 4e-6 + 3e-7 * std::abs(r.greatest))
        << where << ", row " << t;
    for (int64_t v = 0; v < before.columns; ++v) {
      const double p = std::exp(scale * before.z(t, v) - r.log_sum);
      const double want = slope * scale * (p - (v == target ? 1 : 0));
      // The exponent's rounding in fp32, the sum's, and that of the result.
      const double error =
          slope * scale * p * (4e-6 + 3e-7 * std::abs(r.greatest)) + kRounding<T> * std::abs(want);
      ASSERT_NEAR(got.z(t, v), want, error + kTiny<T>) << where << ", row " << t << ", " << v;
    }
  }
}

template <class T>
void check_cross_entropy(int64_t rows, int64_t columns, int64_t start, float scale,
                         Random& random) {
  Logits<T> before = random_logits<T>(rows, columns, columns, start, random);
  const auto targets = random_targets(rows, columns, random);
  const std::string where = fmt::format("{} x {} at {}, scale {}", rows, columns, start, scale);
  const float slope = 16;
  const DeviceArray<int32_t> device_targets(targets);
  const DeviceArray<float> losses(poisoned<float>(rows)), same_losses(poisoned<float>(rows));
  const DeviceArray<T> logits(before.values);
  cuda::cross_entropy(logits.data() + start, device_targets.data(), same_losses.data(), rows,
                      columns, scale, slope, false, gpu_test::stream());
  expect_same_bits(logits.values(), before.values, where + ", no gradient wanted");
  cuda::cross_entropy(logits.data() + start, device_targets.data(), losses.data(), rows, columns,
                      scale, slope, true, gpu_test::stream());
  expect_same_bits(same_losses.values(), losses.values(), where);
  Logits<T> got = before;
  got.values = logits.values();
  expect_cross_entropy(before, got, losses.values(), targets, scale, slope, where);
  for (int64_t i = 0; i < start; ++i)
    ASSERT_TRUE(gpu_test::same_bits(got.values[static_cast<size_t>(i)], before.values[0]));
  for (size_t i = got.values.size() - 9; i < got.values.size(); ++i)
    ASSERT_TRUE(gpu_test::same_bits(got.values[i], before.values.back())) << where;
}

template <class T>
void check_sizes() {
  Random random(41);
  for (const int64_t columns : {1, 2, 7, 8, 9, 64, 511, 1000, 4096, 4099, 8193})
    check_cross_entropy<T>(5, columns, 0, 1, random);
  for (const int64_t start : {1, 2, 3, 5}) check_cross_entropy<T>(6, 777, start, 0.5f, random);
  check_cross_entropy<T>(3, 50257, 0, 1, random);
}

TEST(CrossEntropy, AgreesWithDoubleFp32) {
  check_sizes<float>();
}
TEST(CrossEntropy, AgreesWithDoubleBf16) {
  check_sizes<bf16>();
}
TEST(CrossEntropy, AgreesWithDoubleFp16) {
  check_sizes<fp16>();
}

// p of the target near 1: 1 - p has bits that a p rounded to bf16 has lost.
TEST(CrossEntropy, KeepsSmallGradientsOfSureTargets) {
  constexpr int64_t kColumns = 100;
  Logits<bf16> before(1, kColumns, kColumns, 0);
  for (int64_t v = 0; v < kColumns; ++v) before.at(0, v) = bf16(v == 42 ? 12.0f : 0.0f);
  const DeviceArray<bf16> logits(before.values);
  const DeviceArray<int32_t> targets({42});
  const DeviceArray<float> losses(poisoned<float>(1));
  cuda::cross_entropy(logits.data(), targets.data(), losses.data(), 1, kColumns, 1.0f, 1.0f, true,
                      gpu_test::stream());
  Logits<bf16> got = before;
  got.values = logits.values();
  const double p = std::exp(12 - reference(before, 0, 1).log_sum);
  EXPECT_NEAR(got.z(0, 42), p - 1, 0x1p-8 * (1 - p));
  EXPECT_EQ(static_cast<double>(bf16(static_cast<float>(p))) - 1, 0);  // what a rounded p gives
}

// Layouts put the same row at other addresses.
template <class T>
void check_addresses(int64_t columns) {
  Random random(42);
  const Logits<T> first = random_logits<T>(1, columns, columns, 0, random);
  const DeviceArray<int32_t> targets({17});
  std::vector<float> loss;
  std::vector<T> gradient;
  for (int64_t start = 0; start < 9; ++start) {
    auto values = poisoned<T>(start + columns);
    std::copy_n(first.values.begin(), columns, values.begin() + start);
    const DeviceArray<T> logits(values);
    const DeviceArray<float> losses(poisoned<float>(1));
    cuda::cross_entropy(logits.data() + start, targets.data(), losses.data(), 1, columns, 1.0f,
                        1.0f, true, gpu_test::stream());
    values = logits.values();
    values.erase(values.begin(), values.begin() + start);
    if (start == 0) {
      loss = losses.values();
      gradient = values;
    }
    expect_same_bits(losses.values(), loss, fmt::format("loss at {}", start));
    expect_same_bits(values, gradient, fmt::format("gradient at {}", start));
  }
}

TEST(CrossEntropy, HasTheSameBitsAtEveryAddress) {
  for (const int64_t columns : {6283, 20001}) {
    check_addresses<float>(columns);
    check_addresses<bf16>(columns);
    check_addresses<fp16>(columns);
  }
}

TEST(CrossEntropy, ShowsWhatIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int64_t kColumns = 900;
  Random random(43);
  Logits<bf16> logits = random_logits<bf16>(4, kColumns, kColumns, 0, random);
  logits.at(0, 700) = bf16(kInfinity);
  logits.at(1, 5) = bf16(std::numeric_limits<float>::quiet_NaN());
  logits.at(2, 3) = bf16(-kInfinity);  // a masked column
  const DeviceArray<bf16> values(logits.values);
  const DeviceArray<int32_t> targets({1, 2, 0, 4});
  const DeviceArray<float> losses(poisoned<float>(4));
  cuda::cross_entropy(values.data(), targets.data(), losses.data(), 4, kColumns, 1.0f, 1.0f, false,
                      gpu_test::stream());
  const auto got = losses.values();
  EXPECT_FALSE(std::isfinite(got[0]));
  EXPECT_FALSE(std::isfinite(got[1]));
  const double want = reference(logits, 2, 1).log_sum - logits.z(2, 0);
  EXPECT_NEAR(static_cast<double>(got[2]), want, 1e-5);
  EXPECT_TRUE(std::isfinite(got[3]));
}

/// Where shard s of `shards` begins when `columns` are cut as evenly as can be.
int64_t shard_begin(int64_t columns, int64_t shards, int64_t s) {
  return std::min(columns, s * ((columns + shards - 1) / shards));
}

template <class T>
void check_shards(int64_t rows, int64_t columns, int64_t shards, int64_t gap, float scale) {
  Random random(44);
  Logits<T> before = random_logits<T>(rows, columns, columns + gap, 1, random);
  const auto targets = random_targets(rows, columns, random);
  const std::string where = fmt::format("{} x {}, {} shards, gap {}", rows, columns, shards, gap);
  const float slope = 8;
  const DeviceArray<int32_t> device_targets(targets);
  const DeviceArray<T> logits(before.values);
  const DeviceArray<float> statistics(poisoned<float>(shards * rows * 3)),
      losses(poisoned<float>(rows)), log_terms(poisoned<float>(rows * 2));
  const auto each_shard = [&](const auto& f) {
    for (int64_t s = 0; s < shards; ++s) {
      const int64_t first = shard_begin(columns, shards, s);
      f(logits.data() + before.start + first, shard_begin(columns, shards, s + 1) - first, first,
        statistics.data() + s * rows * 3);
    }
  };
  each_shard([&](T* z, int64_t count, int64_t first, float* numbers) {
    cuda::shard_statistics<T>(z, before.stride, rows, count, device_targets.data(), first, scale,
                              numbers, gpu_test::stream());
  });
  expect_same_bits(logits.values(), before.values, where + ", statistics");
  cuda::combine_shards(losses.data(), log_terms.data(), statistics.data(), shards, rows,
                       device_targets.data(), gpu_test::stream());
  each_shard([&](T* z, int64_t count, int64_t first, const float* numbers) {
    cuda::shard_gradient(z, before.stride, rows, count, device_targets.data(), first, scale, slope,
                         numbers, log_terms.data(), gpu_test::stream());
  });
  Logits<T> got = before;
  got.values = logits.values();
  expect_cross_entropy(before, got, losses.values(), targets, scale, slope, where);
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t v = columns; v < before.stride; ++v)
      ASSERT_TRUE(gpu_test::same_bits(got.at(t, v), before.at(t, v))) << where << ": gap";

  const auto numbers = statistics.values();
  const auto terms = log_terms.values();
  for (int64_t t = 0; t < rows; ++t) {
    const bool counts = targets[static_cast<size_t>(t)] >= 0;
    if (!counts) {
      EXPECT_EQ(terms[static_cast<size_t>(2 * t)], 0.0f);
      EXPECT_EQ(terms[static_cast<size_t>(2 * t + 1)], 1.0f);
    }
    for (int64_t s = 0; s < shards; ++s) {
      const auto at = static_cast<size_t>((s * rows + t) * 3);
      const bool is_empty = shard_begin(columns, shards, s + 1) == shard_begin(columns, shards, s);
      if (counts && !is_empty) continue;
      EXPECT_EQ(numbers[at], std::numeric_limits<float>::lowest()) << where;
      EXPECT_EQ(numbers[at + 1], 0.0f) << where;
      EXPECT_EQ(numbers[at + 2], 0.0f) << where;
    }
  }
}

template <class T>
void check_all_shards() {
  check_shards<T>(9, 1000, 1, 0, 1);
  check_shards<T>(9, 1000, 3, 24, 1);
  check_shards<T>(7, 501, 8, 3, 0.5f);
  check_shards<T>(5, 4, 7, 1, 1);  // the last shards are empty
}

TEST(ShardedCrossEntropy, AgreesWithDouble) {
  check_all_shards<float>();
  check_all_shards<bf16>();
  check_all_shards<fp16>();
}

// With one greatest logit for all shards the leaves are the sums as they are.
TEST(ShardedCrossEntropy, AddsShardsInTheTree) {
  Random random(45);
  constexpr int64_t kRows = 200;
  int out_of_order = 0;
  for (const int64_t shards : {1, 2, 3, 4, 5, 7, 8, 13, 64}) {
    std::vector<std::vector<float>> sums;
    std::vector<float> statistics;
    for (int64_t s = 0; s < shards; ++s) {
      sums.push_back(random.values<float>(kRows, 1, 1000));
      for (int64_t t = 0; t < kRows; ++t) {
        statistics.push_back(2.0f);
        statistics.push_back(sums.back()[static_cast<size_t>(t)]);
        statistics.push_back(0.0f);
      }
    }
    std::vector<const float*> leaves;
    for (const auto& leaf : sums) leaves.push_back(leaf.data());
    std::vector<float> want(kRows), in_sequence(kRows, 0.0f);
    TreeSum<float, float>()(leaves, want.data(), kRows);
    for (const auto& leaf : sums)
      for (size_t t = 0; t < kRows; ++t) in_sequence[t] += leaf[t];
    const DeviceArray<float> device_statistics(statistics), losses(poisoned<float>(kRows)),
        log_terms(poisoned<float>(kRows * 2));
    const DeviceArray<int32_t> targets(std::vector<int32_t>(kRows, 1));
    cuda::combine_shards(losses.data(), log_terms.data(), device_statistics.data(), shards, kRows,
                         targets.data(), gpu_test::stream());
    const auto terms = log_terms.values();
    for (size_t t = 0; t < kRows; ++t) {
      ASSERT_EQ(terms[2 * t], 2.0f);
      ASSERT_EQ(terms[2 * t + 1], want[t]) << shards << " shards, row " << t;
      out_of_order += want[t] != in_sequence[t];
    }
  }
  EXPECT_GT(out_of_order, 100);  // or the order would not show
}

}  // namespace
}  // namespace espalier
