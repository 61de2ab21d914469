// SPDX-License-Identifier: Apache-2.0
// Smoothing, buckets and medians against what they are defined to be.
#include "report/series.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Series, SmoothIsTheWeightedMean) {
  const Series x = {3.0, -1.0, kNan, 4.0, 1.0, kInf, 5.0};
  const double span = 2.5;
  const Series y = smooth(x, span);
  ASSERT_EQ(y.size(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0.0, weight = 0.0;
    for (size_t j = 0; j < x.size(); ++j) {
      if (!std::isfinite(x[j])) continue;
      const double w = std::exp(-std::abs(static_cast<double>(i) - static_cast<double>(j)) / span);
      sum += w * x[j];
      weight += w;
    }
    EXPECT_NEAR(y[i], sum / weight, 1e-14) << i;
  }
}

TEST(Series, SmoothOfNothing) {
  EXPECT_TRUE(smooth({}, 10).empty());
  EXPECT_TRUE(std::isnan(smooth({kNan, kInf}, 10)[1]));
}

TEST(Series, BucketsCoverEverythingOnce) {
  for (const size_t count : {0, 1, 5, 999, 1000, 1001, 123457}) {
    const auto edges = bucket_edges(count, 1000);
    ASSERT_EQ(edges.size(), std::min<size_t>(count, 1000) + 1);
    EXPECT_EQ(edges.front(), 0u);
    EXPECT_EQ(edges.back(), count);
    for (size_t b = 0; b + 1 < edges.size(); ++b) {
      EXPECT_GE(edges[b + 1] - edges[b], count / 1000);
      EXPECT_LE(edges[b + 1] - edges[b], count / 1000 + 1);
      EXPECT_LT(edges[b], edges[b + 1]);
    }
  }
}

TEST(Series, EnvelopeKeepsAnOutlier) {
  Series x(100000, 1.0);
  x[77777] = 50.0;
  x[3] = kNan;
  const Envelope e = envelope(x, bucket_edges(x.size(), 1000));
  EXPECT_EQ(*std::max_element(e.max.begin(), e.max.end()), 50.0);
  EXPECT_EQ(e.max[777], 50.0);
  EXPECT_EQ(e.min[777], 1.0);
  EXPECT_NEAR(e.mean[777], 1.49, 1e-12);
  EXPECT_EQ(e.mean[0], 1.0);
}

TEST(Series, EnvelopeOfABucketWithoutValues) {
  const Envelope e = envelope({kNan, kInf, 2.0, 4.0}, {0, 2, 4});
  EXPECT_TRUE(std::isnan(e.mean[0]) && std::isnan(e.min[0]) && std::isnan(e.max[0]));
  EXPECT_EQ(e.mean[1], 3.0);
}

TEST(Series, Median) {
  EXPECT_EQ(median({5.0, kNan, 1.0, 3.0}), 3.0);
  EXPECT_EQ(median({4.0, 1.0, kInf, 2.0, 3.0}), 2.5);
  EXPECT_TRUE(std::isnan(median({kNan})));
}

}  // namespace
}  // namespace espalier
