// SPDX-License-Identifier: Apache-2.0
#include "cuda/reduction.hpp"

#include <cmath>

#include "core/error.hpp"
#include "cuda/check.hpp"
#include "gpu/device_array.hpp"
#include "parallel/tree_sum.hpp"

namespace espalier {
namespace {

using gpu_test::DeviceArray;
using gpu_test::expect_same_bits;
using gpu_test::poisoned;
using gpu_test::Random;

constexpr int64_t kMargin = 16;  // elements on each side that no kernel may touch

/// One sum: leaf r begins starts[r % starts.size()] elements behind an aligned address, the result
/// `start` elements.
struct Case {
  int count;
  int64_t size;
  std::vector<int64_t> starts;
  int64_t start;
};

template <class Wire>
std::vector<std::vector<Wire>> random_leaves(const Case& c, Random& random) {
  std::vector<std::vector<Wire>> leaves;
  for (int r = 0; r < c.count; ++r) {
    // Magnitudes apart, so that another order gives other bits.
    const double size = std::exp(random.uniform(-4, 4));
    leaves.push_back(random.values<Wire>(c.size, -size, size));
  }
  return leaves;
}

template <class Wire, class Out>
std::vector<Out> host_sum(const std::vector<std::vector<Wire>>& leaves, int64_t size) {
  std::vector<const Wire*> at;
  for (const auto& leaf : leaves) at.push_back(leaf.data());
  std::vector<Out> out(static_cast<size_t>(size));
  TreeSum<Acc<Wire>, Wire>()(at, out.data(), size);
  return out;
}

template <class T>
std::vector<T> between_margins(const std::vector<T>& values, int64_t start) {
  const auto size = static_cast<int64_t>(values.size());
  std::vector<T> all = poisoned<T>(kMargin + start + size + kMargin);
  std::copy(values.begin(), values.end(), all.begin() + kMargin + start);
  return all;
}

template <class Wire, class Out>
void check_sum(const Case& c, Random& random) {
  const auto leaves = random_leaves<Wire>(c, random);
  std::vector<DeviceArray<Wire>> arrays;
  cuda::Leaves<Wire> on_device{};
  on_device.count = c.count;
  for (int r = 0; r < c.count; ++r) {
    const int64_t start = c.starts[static_cast<size_t>(r) % c.starts.size()];
    arrays.emplace_back(between_margins(leaves[static_cast<size_t>(r)], start));
    on_device.at[r] = arrays.back().data() + kMargin + start;
  }
  const DeviceArray<Out> out(poisoned<Out>(2 * kMargin + c.start + c.size));
  cuda::tree_sum(on_device, out.data() + kMargin + c.start, c.size, gpu_test::stream());
  expect_same_bits(out.values(), between_margins(host_sum<Wire, Out>(leaves, c.size), c.start),
                   fmt::format("{} leaves of {}, first at {}, result at {}", c.count, c.size,
                               c.starts[0], c.start));
}

template <class Wire, class Out>
void check_sums() {
  Random random(7);
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128})
    check_sum<Wire, Out>({count, 1 + random.below(700), {0}, 0}, random);
  for (const int64_t size : {1, 2, 7, 8, 9, 255, 2048, 4099})
    for (const int64_t start : {0, 1, 3, 5, 8})
      check_sum<Wire, Out>({3, size, {start}, start}, random);
  // Not aligned alike: element by element.
  check_sum<Wire, Out>({4, 1001, {0, 1, 2, 3}, 5}, random);
  check_sum<Wire, Out>({9, 500, {0}, 1}, random);
}

TEST(TreeSum, HasTheBitsOfTheHostFp32) {
  check_sums<float, float>();
}
TEST(TreeSum, HasTheBitsOfTheHostBf16) {
  check_sums<bf16, bf16>();
}
TEST(TreeSum, HasTheBitsOfTheHostFp16) {
  check_sums<fp16, fp16>();
}
TEST(TreeSum, HasTheBitsOfTheHostBf16ToFp32) {
  check_sums<bf16, float>();
}
TEST(TreeSum, HasTheBitsOfTheHostFp32ToBf16) {
  check_sums<float, bf16>();
}
TEST(TreeSum, HasTheBitsOfTheHostFp32ToFp16) {
  check_sums<float, fp16>();
}
TEST(TreeSum, HasTheBitsOfTheHostFp64) {
  check_sums<double, double>();
}

// Or the tests above would pass with any order.
TEST(TreeSum, AnotherOrderHasOtherBits) {
  Random random(8);
  for (const int count : {4, 5, 16, 100}) {
    const Case c{count, 400, {0}, 0};
    const auto leaves = random_leaves<float>(c, random);
    std::vector<float> in_sequence(400, 0.0f);
    for (const auto& leaf : leaves)
      for (size_t i = 0; i < leaf.size(); ++i) in_sequence[i] += leaf[i];
    const auto tree = host_sum<float, float>(leaves, 400);
    int different = 0;
    for (size_t i = 0; i < tree.size(); ++i) different += tree[i] != in_sequence[i];
    EXPECT_GT(different, 40) << count << " leaves";
  }
}

TEST(TreeSum, MayOverwriteALeaf) {
  Random random(9);
  for (const int replaced : {0, 4, 6}) {
    const Case c{7, 1234, {0}, 0};
    const auto leaves = random_leaves<bf16>(c, random);
    std::vector<DeviceArray<bf16>> arrays;
    cuda::Leaves<bf16> on_device{};
    on_device.count = c.count;
    for (int r = 0; r < c.count; ++r) {
      arrays.emplace_back(leaves[static_cast<size_t>(r)]);
      on_device.at[r] = arrays.back().data();
    }
    cuda::tree_sum(on_device, arrays[static_cast<size_t>(replaced)].data(), c.size,
                   gpu_test::stream());
    for (int r = 0; r < c.count; ++r)
      expect_same_bits(
          arrays[static_cast<size_t>(r)].values(),
          r == replaced ? host_sum<bf16, bf16>(leaves, c.size) : leaves[static_cast<size_t>(r)],
          fmt::format("leaf {}, {} replaced", r, replaced));
  }
}

TEST(TreeSum, RefusesTooManyLeaves) {
  cuda::Leaves<float> leaves{};
  leaves.count = cuda::kMostLeaves + 1;
  EXPECT_THROW(cuda::tree_sum<float>(leaves, static_cast<float*>(nullptr), 0, gpu_test::stream()),
               InternalError);
  leaves.count = 0;
  EXPECT_THROW(cuda::tree_sum<float>(leaves, static_cast<float*>(nullptr), 0, gpu_test::stream()),
               InternalError);
}

/// Every kind of value: ties, subnormals, infinities, NaN.
template <class T>
std::vector<T> all_kinds(int64_t size, Random& random) {
  std::vector<T> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (sizeof(T) == 2) {
      values[i].bits = static_cast<uint16_t>(i);
    } else {
      uint32_t bits = random.word();
      if (i % 4 == 1) bits = (bits & 0xffff0000u) | 0x8000u;          // ties of bf16
      if (i % 4 == 2) bits = (bits & 0x8fffe000u) | 0x30001000u;      // ties of fp16
      if (i % 4 == 3) bits = (bits & 0x80ffffffu) | (i % 8 << 24);    // around zero
      if (i % 97 == 0) bits = 0x7f800000u | (i % 2 == 0 ? 0 : 0x1u);  // infinity, NaN
      values[i] = bits_float(bits);
    }
  }
  return values;
}

template <class From, class To>
void check_convert() {
  Random random(11);
  const int64_t size = sizeof(From) == 2 ? 1 << 16 : 40001;
  const auto from = all_kinds<From>(size, random);
  for (const int64_t start : {0, 1, 4}) {
    const DeviceArray<From> source(between_margins(from, start));
    const DeviceArray<To> target(poisoned<To>(2 * kMargin + start + size));
    cuda::convert(source.data() + kMargin + start, target.data() + kMargin + start, size,
                  gpu_test::stream());
    const auto got = target.values();
    for (int64_t i = 0; i < kMargin + start; ++i)
      ASSERT_TRUE(std::isnan(static_cast<float>(got[static_cast<size_t>(i)])));
    for (int64_t i = 0; i < kMargin; ++i)
      ASSERT_TRUE(std::isnan(static_cast<float>(got[got.size() - 1 - static_cast<size_t>(i)])));
    int not_numbers = 0;
    for (int64_t i = 0; i < size; ++i) {
      const To want(static_cast<float>(from[static_cast<size_t>(i)]));
      const To value = got[static_cast<size_t>(kMargin + start + i)];
      if (std::isnan(static_cast<float>(want))) {  // whose other bits are the device's business
        ++not_numbers;
        ASSERT_TRUE(std::isnan(static_cast<float>(value))) << "element " << i;
      } else {
        ASSERT_TRUE(gpu_test::same_bits(value, want))
            << "element " << i << ": " << static_cast<float>(from[static_cast<size_t>(i)])
            << " became " << static_cast<float>(value);
      }
    }
    EXPECT_GT(not_numbers, 100);
    EXPECT_LT(not_numbers, size / 4);
  }
}

// An error that another call left behind is not the kernel's, and stays for who asks for it.
TEST(Convert, DoesNotFailForOthers) {
  const DeviceArray<float> from(std::vector<float>{1, 2, 3});
  const DeviceArray<bf16> to(poisoned<bf16>(3));
  ASSERT_EQ(cudaSetDevice(-1), cudaErrorInvalidDevice);
  EXPECT_NO_THROW(cuda::convert(from.data(), to.data(), 3, gpu_test::stream()));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(static_cast<float>(to.values()[2]), 3.0f);
}

TEST(Convert, RoundsAsTheHost) {
  check_convert<float, bf16>();
  check_convert<float, fp16>();
  check_convert<bf16, float>();
  check_convert<fp16, float>();
  check_convert<bf16, fp16>();
  check_convert<fp16, bf16>();
}

template <class Real>
void check_add() {
  Random random(12);
  for (const int64_t size : {1, 3, 4, 1000, 1027})
    for (const int64_t start : {0, 1, 2}) {
      const auto a = random.values<Real>(size), b = random.values<Real>(size);
      const int64_t other = size == 1000 ? 0 : start;  // also not aligned alike
      const DeviceArray<Real> to(between_margins(a, start)), from(between_margins(b, other));
      cuda::add(to.data() + kMargin + start, from.data() + kMargin + other, size,
                gpu_test::stream());
      std::vector<Real> sum = a;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
      expect_same_bits(to.values(), between_margins(sum, start),
                       fmt::format("{} at {}", size, start));
    }
}

TEST(Add, AddsEveryElementOnce) {
  check_add<float>();
  check_add<double>();
}

}  // namespace
}  // namespace espalier
