// SPDX-License-Identifier: Apache-2.0
// No gap and no repeat where a run goes on with another batch size, other weights or skips.
#include <gtest/gtest.h>

#include "stream_stretch.hpp"

namespace espalier {
namespace {

using namespace testing;

TEST(StreamResume, GoesOnWithAnotherBatchSize) {
  const TempFolder folder;
  for (Config config : many_configs()) {
    if (!config.data.curriculum.empty()) config.data.curriculum.pop_back();
    const BatchSource straight(config, Stream::train, three_sources(folder));
    const Stretch expected = stretch(straight, 0, 40);
    const std::set<int32_t> ids = readable_ids(folder, config);
    for (const int64_t cut : {1, 2, 5, 17}) {
      Stretch whole = stretch(straight, 0, cut);
      const MixtureState state = decode_mixture(encode_mixture(straight.mixture_at(cut)), "state");
      Config changed = config;
      changed.batch.global_batch_size = 4;
      BatchSource resumed(changed, Stream::train, three_sources(folder));
      resumed.continue_from(cut, straight.position_of(cut), state);
      whole.merge(stretch(resumed, cut, (40 - cut) * 3));
      // Where a stage is still to come, it comes at other positions; else all is the same.
      if (config.data.curriculum.empty() || cut >= 3) {
        EXPECT_TRUE(whole == expected) << cut;
      }
      EXPECT_EQ(whole.size(), expected.size());
      for (const auto& [position, parts] : whole) EXPECT_EQ(expected.count(position), 1u);
      if (config.data.skip.empty()) expect_even_use(uses(whole), ids);
    }
  }
}

// Weights, batch size and skips all change, again and again, and each source goes on.
TEST(StreamResume, GoesOnWithOtherWeights) {
  const TempFolder folder;
  Config config = small_config(7, 1, 5);
  config.data.weights = {"a = 1", "b = 1", "c = 1"};
  const std::set<int32_t> ids = readable_ids(folder, config);
  Stretch all;
  MixtureState state;
  int64_t position = 0, step = 0;
  for (int64_t run = 0; run < 12; ++run) {
    config.batch.global_batch_size = 3 + run % 4;
    config.data.weights = {"a = " + std::to_string(run % 3), "b = 0.7",
                           "c = " + std::to_string(1 + run / 3)};
    config.data.curriculum.clear();
    if (run % 4 == 1) config.data.curriculum = {std::to_string(step + 3) + ": a = 4, b = 0, c = 1"};
    BatchSource source(config, Stream::train, three_sources(folder));
    source.continue_from(step, position, state);
    all.merge(stretch(source, step, 6));
    step += 6;
    position = source.position_of(step);
    state = source.mixture_at(step);
  }
  EXPECT_EQ(static_cast<int64_t>(all.size()), position);  // every position once
  expect_even_use(uses(all), ids);
}

TEST(StreamResume, ResumedAtOnceIsTheSame) {
  const TempFolder folder;
  for (const Config& config : many_configs()) {
    const BatchSource straight(config, Stream::train, three_sources(folder));
    for (const int64_t cut : {1, 3, 4, 8, 9, 11}) {
      BatchSource resumed(config, Stream::train, three_sources(folder));
      resumed.continue_from(cut, straight.position_of(cut), straight.mixture_at(cut));
      EXPECT_TRUE(stretch(resumed, cut, 9) == stretch(straight, cut, 9)) << cut;
      EXPECT_TRUE(resumed.mixture_at(cut + 5) == straight.mixture_at(cut + 5));
      EXPECT_EQ(resumed.skipped_in(cut + 2), straight.skipped_in(cut + 2));
    }
  }
}

TEST(StreamResume, JumpsOverSkippedPositions) {
  const TempFolder folder;
  Config config = small_config(5, 1, 4);
  const BatchSource plain(config, Stream::train, three_sources(folder));
  config.data.skip = {{0, 2}, {6, 9}, {9, 10}, {20, 21}};
  BatchSource source(config, Stream::train, three_sources(folder));
  EXPECT_EQ(source.position_of(0), 2);
  EXPECT_EQ(source.position_of(1), 10);
  EXPECT_EQ(source.position_of(2), 14);
  EXPECT_EQ(source.position_of(4), 23);
  using Ranges = std::vector<IntegerRange>;
  EXPECT_EQ(source.skipped_in(0), (Ranges{{0, 2}}));
  EXPECT_EQ(source.skipped_in(1), (Ranges{{6, 9}, {9, 10}}));
  EXPECT_EQ(source.skipped_in(2), Ranges{});
  EXPECT_EQ(source.skipped_in(3), (Ranges{{20, 21}}));
  const Stretch all = stretch(plain, 0, 12), kept = stretch(source, 0, 10);
  for (const auto& [position, parts] : kept) EXPECT_TRUE(all.at(position) == parts);
  for (const int64_t position : {0, 1, 6, 7, 8, 9, 20}) EXPECT_EQ(kept.count(position), 0u);
  EXPECT_EQ(kept.size(), 40u);
  // Going on inside a range.
  source.continue_from(7, 7);
  EXPECT_EQ(source.position_of(7), 10);
  EXPECT_EQ(source.skipped_in(7), (Ranges{{7, 9}, {9, 10}}));
}

}  // namespace
}  // namespace espalier
