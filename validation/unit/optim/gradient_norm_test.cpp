// SPDX-License-Identifier: Apache-2.0
// Sums of squares: value, the same words for every layout, and values that are not finite.
#include "optim/gradient_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "../../device_list.hpp"
#include "core/error.hpp"
#include "small_table.hpp"

namespace espalier {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class Real>
SquareSums whole_sums(const ParameterTable& table, const std::vector<Real>& flat) {
  GradientNorm norm(make_segments(table), own_everything(table.flat_size), Indexing::flat);
  return norm.square_sums(check::DeviceList<Real>(flat).data());
}

bool equal_words(ExactSum a, ExactSum b) {
  return std::memcmp(a.words(), b.words(), sizeof(int64_t) * ExactSum::kWords) == 0;
}

template <class Real>
void expect_plain_sum() {
  const ParameterTable table = small_table();
  const auto flat = flat_values<Real>(table, 1, static_cast<Real>(kNan));
  long double plain = 0.0L;
  for (const Real x : flat)
    if (!std::isnan(x)) plain += static_cast<long double>(x) * x;
  const SquareSums sums = whole_sums(table, flat);
  EXPECT_TRUE(sums.is_finite());
  // a cell of at most 37 elements in short chains, then nothing until the last rounding
  EXPECT_NEAR(sums.sum.value(), static_cast<double>(plain), 1e-15 * static_cast<double>(plain));
}

TEST(GradientNorm, IsThePlainSumInFloat) {
  expect_plain_sum<float>();
}
TEST(GradientNorm, IsThePlainSumInDouble) {
  expect_plain_sum<double>();
}

// The sum of all ranks' words, whoever owns what and however the buffers are indexed.
template <class Real>
ExactSum sum_over(int64_t tensor_ranks, int64_t shards, int64_t bucket, BucketJoin join,
                  Indexing indexing) {
  ExactSum all;
  for (int64_t rank = 0; rank < tensor_ranks; ++rank) {
    const ParameterTable table = small_table(tensor_ranks, rank);
    const auto flat = flat_values<Real>(table, 1, static_cast<Real>(kNan));
    const auto segments = make_segments(table);
    const Partition partition = make_partition(table, shards, bucket, join);
    for (int64_t s = 0; s < shards; ++s) {
      GradientNorm norm(segments, partition.owned_by(s), indexing);
      const auto buffer = indexing == Indexing::flat ? flat : compacted(flat, partition, s);
      const SquareSums sums = norm.square_sums(check::DeviceList<Real>(buffer).data());
      EXPECT_TRUE(sums.is_finite());
      all.add(sums.sum);
    }
  }
  return all;
}

template <class Real>
void expect_same_words() {
  const ParameterTable table = small_table();
  const ExactSum expected =
      whole_sums(table, flat_values<Real>(table, 1, static_cast<Real>(kNan))).sum;
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t shards : {1, 2, 3, 8})
      for (const int64_t bucket : {int64_t{100}, int64_t{1} << 30})
        for (const BucketJoin join : {BucketJoin::yes, BucketJoin::no})
          for (const Indexing indexing : {Indexing::flat, Indexing::compact})
            EXPECT_TRUE(
                equal_words(sum_over<Real>(ranks, shards, bucket, join, indexing), expected))
                << ranks << " tensor ranks, " << shards << " shards, buckets of " << bucket;
}

TEST(GradientNorm, HasTheSameWordsForEveryLayoutInFloat) {
  expect_same_words<float>();
}
TEST(GradientNorm, HasTheSameWordsForEveryLayoutInDouble) {
  expect_same_words<double>();
}

// Negative control: other shards cut other cells, and so round otherwise; and a gradient that
// changes by one bit is seen.
TEST(GradientNorm, OtherCellsHaveOtherWords) {
  const ParameterTable table = small_table(), unsplit = small_table(1, 0, 1);
  auto flat = flat_values<float>(table, 1, 0.0f);
  const ExactSum expected = whole_sums(table, flat).sum;
  EXPECT_FALSE(
      equal_words(whole_sums(unsplit, flat_values<float>(unsplit, 1, 0.0f)).sum, expected));
  flat[table.parameters.back().offset] *= 1.0f + 0x1p-20f;
  EXPECT_FALSE(equal_words(whole_sums(table, flat).sum, expected));
}

TEST(GradientNorm, FindsTheFirstParameterThatIsNotFinite) {
  const ParameterTable table = small_table();
  const auto sound = flat_values<float>(table, 1, std::numeric_limits<float>::quiet_NaN());
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    for (size_t i = 0; i < table.parameters.size(); ++i) {
      auto flat = sound;
      const ParameterSpec& p = table.parameters[i];
      flat[static_cast<size_t>(p.offset + p.size() - 1)] = bad;
      flat[static_cast<size_t>(table.parameters.back().offset)] = bad;
      const SquareSums sums = whole_sums(table, flat);
      EXPECT_FALSE(sums.is_finite());
      EXPECT_EQ(sums.first_not_finite, static_cast<int64_t>(i));
      EXPECT_TRUE(std::isnan(sums.sum.value()));
    }
  // The largest float is finite, and so is its square in double.
  auto flat = sound;
  flat[5] = std::numeric_limits<float>::max();
  EXPECT_TRUE(whole_sums(table, flat).is_finite());
}

// What one step leaves shows in no other: neither its sum nor what was not finite in it.
TEST(GradientNorm, BeginsAnewEveryTime) {
  const ParameterTable table = small_table();
  const auto sound = flat_values<float>(table, 1, std::numeric_limits<float>::quiet_NaN());
  auto bad = sound;
  bad[static_cast<size_t>(table.parameters[1].offset)] = std::numeric_limits<float>::infinity();
  const check::DeviceList<float> sound_list(sound), bad_list(bad);
  const ExactSum expected = whole_sums(table, sound).sum;
  GradientNorm norm(make_segments(table), own_everything(table.flat_size), Indexing::flat);
  for (int step = 0; step < 3; ++step) {
    norm.start(bad_list.data());
    EXPECT_EQ(norm.finish().first_not_finite, 1);
    norm.start(sound_list.data());
    const SquareSums sums = norm.finish();
    EXPECT_TRUE(sums.is_finite());
    EXPECT_TRUE(equal_words(sums.sum, expected));
  }
  GradientNorm nothing(make_segments(table), {}, Indexing::flat);  // a rank that owns nothing
  const SquareSums none = nothing.square_sums(sound_list.data());
  EXPECT_TRUE(none.is_finite());
  EXPECT_EQ(none.sum.value(), 0.0);
}

TEST(GradientNorm, RefusesRangesThatCutRows) {
  OptimizerSegment s;
  s.size = 12;
  s.row = s.cell = 4;
  const auto norm = [&](const OwnedRange& range) {
    return GradientNorm({s}, {range}, Indexing::flat);
  };
  EXPECT_NO_THROW(norm({4, 8, 0}));
  EXPECT_THROW(norm({5, 7, 0}), InternalError);
  EXPECT_THROW(norm({4, 5, 0}), InternalError);
  EXPECT_THROW(GradientNorm({s, s}, {{0, 12, 0}}, Indexing::flat), InternalError);
  EXPECT_THROW(GradientNorm({s}, {{4, 4, 0}, {0, 4, 16}}, Indexing::flat), InternalError);
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
