// SPDX-License-Identifier: Apache-2.0
// Sums of squares: value, independence of place, and values that are not finite.
#include "optim/gradient_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

constexpr int64_t kSize = 150001;

template <class Real>
Buffer<Real> gradients(int64_t size = kSize) {
  Buffer<Real> g("gradients", static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    g(i) = static_cast<Real>(1e-3 * random_normal(1, 2, static_cast<uint64_t>(i)));
  return g;
}

const std::vector<OptimizerSegment> kSegments = {{0, 100000, WeightDecay::apply},
                                                 {100000, 1, WeightDecay::none},
                                                 {100007, 49994, WeightDecay::apply}};

template <class Real>
void expect_plain_sums() {
  const Buffer<Real> g = gradients<Real>();
  const SquareSums sums = GradientNorm(kSize, kSegments).square_sums(g.data());
  ASSERT_EQ(sums.by_segment.size(), 3u);
  long double total = 0.0L;
  for (size_t s = 0; s < 3; ++s) {
    long double plain = 0.0L;
    for (int64_t i = 0; i < kSegments[s].size; ++i) {
      const long double x = g(kSegments[s].offset + i);
      plain += x * x;
    }
    total += plain;
    // 1e5 additions of positive numbers in many short chains: far below 1e5 eps
    EXPECT_NEAR(sums.by_segment[s], static_cast<double>(plain), 1e-12 * static_cast<double>(plain));
  }
  EXPECT_NEAR(sums.total, static_cast<double>(total), 1e-12 * static_cast<double>(total));
  EXPECT_TRUE(sums.is_finite());
}

TEST(GradientNorm, IsThePlainSumInFloat) {
  expect_plain_sums<float>();
}
TEST(GradientNorm, IsThePlainSumInDouble) {
  expect_plain_sums<double>();
}

TEST(GradientNorm, DependsOnNeitherPlaceNorNeighbours) {
  constexpr int64_t kLength = 70001;
  const Buffer<float> source = gradients<float>(kLength);
  double first = 0.0;
  for (const int64_t offset : {0, 1, 7, 16, 33, 1000}) {
    Buffer<float> g("gradients", static_cast<size_t>(kLength + offset + 50));
    for (int64_t i = 0; i < offset; ++i) g(i) = 1e3f;
    for (int64_t i = 0; i < kLength; ++i) g(offset + i) = source(i);
    std::vector<OptimizerSegment> segments = {{offset, kLength, WeightDecay::apply}};
    if (offset > 0) segments.insert(segments.begin(), {0, offset, WeightDecay::apply});
    const SquareSums sums =
        GradientNorm(static_cast<int64_t>(g.extent(0)), segments).square_sums(g.data());
    if (offset == 0) first = sums.by_segment.back();
    EXPECT_EQ(sums.by_segment.back(), first) << offset;  // every bit
  }
}

TEST(GradientNorm, FindsTheSegmentThatIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    for (size_t s = 0; s < 3; ++s) {
      const Buffer<float> g = gradients<float>();
      const OptimizerSegment& segment = kSegments[s];
      g(segment.offset + segment.size - 1) = bad;
      const SquareSums sums = GradientNorm(kSize, kSegments).square_sums(g.data());
      EXPECT_FALSE(sums.is_finite());
      EXPECT_EQ(sums.first_not_finite, static_cast<int64_t>(s));
    }
  // The largest float is finite, and so is its square in double.
  const Buffer<float> g = gradients<float>();
  g(5) = std::numeric_limits<float>::max();
  EXPECT_TRUE(GradientNorm(kSize, kSegments).square_sums(g.data()).is_finite());
  // What lies between segments does not count.
  g(100003) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(GradientNorm(kSize, kSegments).square_sums(g.data()).is_finite());
}

TEST(GradientNorm, RefusesSegmentsOutsideTheBuffer) {
  EXPECT_THROW(GradientNorm(10, {{5, 6, WeightDecay::apply}}), InternalError);
  EXPECT_THROW(GradientNorm(10, {{-1, 6, WeightDecay::apply}}), InternalError);
}

TEST(GradientNorm, ClipsAsPyTorchDoes) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_DOUBLE_EQ(clip_factor(1.0, 1.0), 1.0 / 1.000001);  // torch shrinks here as well
  EXPECT_EQ(clip_factor(1e30, 0.0), 1.0);                   // 0: no clipping
  EXPECT_THROW(clip_factor(std::numeric_limits<double>::quiet_NaN(), 1.0), InternalError);
  EXPECT_THROW(clip_factor(std::numeric_limits<double>::infinity(), 1.0), InternalError);
}

}  // namespace
}  // namespace espalier
