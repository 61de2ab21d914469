// SPDX-License-Identifier: Apache-2.0
// The prefetched stream is the stream, on any split over ranks; and the thread always ends.
#include "corpus/prefetcher.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::TempFolder;

Config random_config() {
  Config config;
  config.model.vocab_size = 100;
  config.batch = {32, 2, 24};
  config.data.source = DataSource::random;
  return config;
}

TEST(Prefetcher, EqualsDirectFill) {
  const BatchSource source(random_config(), Stream::train);
  MicroBatch direct;
  for (const int64_t depth : {0, 1, 2, 7}) {
    Prefetcher prefetcher(source, {3, 5, 1}, 5, depth);
    for (int64_t step = 5; step < 60; ++step) {
      EXPECT_EQ(prefetcher.next_step(), step);
      const auto& batches = prefetcher.next();
      ASSERT_EQ(batches.size(), 5u);
      if (step % 9 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int64_t m = 3; m < 8; ++m) {
        source.fill(step, m, direct);
        const MicroBatch& got = batches[static_cast<size_t>(m - 3)];
        EXPECT_EQ(got.inputs, direct.inputs);
        EXPECT_EQ(got.targets, direct.targets);
        EXPECT_EQ(got.token_hash, direct.token_hash);
      }
    }
  }
}

TEST(Prefetcher, AnySplitOverRanksIsTheSameStream) {
  const BatchSource source(random_config(), Stream::train);  // 12 micro-batches a step
  std::vector<uint64_t> expected(10);
  for (const int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    for (const bool interleaved : {false, true}) {
      std::vector<uint64_t> hashes(10);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t share = 12 / ranks;
        const MicroBatchRange range = interleaved ? MicroBatchRange{rank, share, ranks}
                                                  : MicroBatchRange{rank * share, share, 1};
        Prefetcher prefetcher(source, range, 0, 2);
        for (uint64_t& hash : hashes) {
          for (const MicroBatch& batch : prefetcher.next()) hash += batch.token_hash;
        }
      }
      if (ranks == 1) expected = hashes;
      EXPECT_EQ(hashes, expected) << ranks;
    }
  }
}

TEST(Prefetcher, StridesOverTheMicroBatches) {
  const BatchSource source(random_config(), Stream::train);
  const MicroBatchRange range{1, 4, 3};  // 1, 4, 7, 10
  MicroBatch direct;
  for (const int64_t depth : {0, 2}) {
    Prefetcher prefetcher(source, range, 0, depth);
    for (int64_t step = 0; step < 5; ++step) {
      const auto& batches = prefetcher.next();
      ASSERT_EQ(batches.size(), 4u);
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(range.index(i), 1 + 3 * i);
        source.fill(step, 1 + 3 * i, direct);
        EXPECT_EQ(batches[static_cast<size_t>(i)].inputs, direct.inputs);
        EXPECT_EQ(batches[static_cast<size_t>(i)].first_token, direct.first_token);
      }
    }
  }
}

TEST(Prefetcher, StopsAtAnyTime) {
  const BatchSource source(random_config(), Stream::train);
  for (int64_t taken = 0; taken < 12; ++taken) {
    for (const int64_t depth : {1, 3}) {
      Prefetcher prefetcher(source, {0, 12, 1}, 0, depth);
      for (int64_t i = 0; i < taken; ++i) prefetcher.next();
    }
  }
}

TEST(Prefetcher, EndsWithTheSource) {
  const BatchSource source(random_config(), Stream::validation);
  for (const int64_t depth : {0, 2, 20}) {
    Prefetcher prefetcher(source, {0, 12, 1}, 0, depth);
    for (int64_t i = 0; i < source.batches(); ++i) prefetcher.next();
    EXPECT_THROW(prefetcher.next(), InternalError);
  }
  const auto refused = [&](const MicroBatchRange& range) {
    EXPECT_THROW(Prefetcher(source, range, 0, 1), InternalError);
  };
  refused({0, 13, 1});
  refused({5, 8, 1});
  refused({1, 4, 4});  // the last would be 13
  refused({5, -1, 1});
  refused({-1, 2, 1});
  refused({0, 2, 0});
  Prefetcher idle(source, {4, 0, 1}, 0, 1);  // a rank without micro-batches
  EXPECT_TRUE(idle.next().empty());
}

TEST(Prefetcher, PassesErrorsOnAtTheirStep) {
  const TempFolder folder;
  std::string bytes =
      testing::read_bytes(testing::write_documents(folder.at("a"), {testing::random_text(1, 205)}));
  bytes[128 + 2 * 55 + 1] = 9;  // in window 5
  Config config = random_config();
  config.data.source = DataSource::files;
  config.data.verify = VerifyData::header;
  config.model.vocab_size = 257;
  config.batch = {10, 1, 1};
  config.data.train = config.data.validation = {folder.write("bad", bytes)};
  config.monitor.validation_batches = 100;
  const BatchSource source(config, Stream::validation);
  for (const int64_t depth : {0, 1, 3, 50}) {
    for (const int64_t workers : {1, 2, 9}) {
      Prefetcher prefetcher(source, {0, 1, 1}, 0, depth, workers);
      for (int64_t step = 0; step < 5; ++step) EXPECT_EQ(prefetcher.next().size(), 1u);
      for (int again = 0; again < 2; ++again) {
        EXPECT_CONTAINS(data_error([&] { prefetcher.next(); }), "token 55 has id");
      }
    }
  }
}

// Two micro-batches of one step are damaged: the first is named, whichever thread was faster.
TEST(Prefetcher, NamesTheFirstOfSeveralFailures) {
  const TempFolder folder;
  std::string bytes =
      testing::read_bytes(testing::write_documents(folder.at("a"), {testing::random_text(1, 405)}));
  bytes[128 + 2 * 235 + 1] = 9;
  bytes[128 + 2 * 215 + 1] = 9;
  Config config = random_config();
  config.data.source = DataSource::files;
  config.data.verify = VerifyData::header;
  config.model.vocab_size = 257;
  config.batch = {10, 1, 10};
  config.data.train = config.data.validation = {folder.write("bad", bytes)};
  config.monitor.validation_batches = 100;
  const BatchSource source(config, Stream::validation);
  for (int again = 0; again < 200; ++again) {
    Prefetcher prefetcher(source, {0, 10, 1}, 0, 4, 4);
    for (int64_t step = 0; step < 2; ++step) EXPECT_EQ(prefetcher.next().size(), 10u);
    EXPECT_CONTAINS(data_error([&] { prefetcher.next(); }), "token 215 has id");
  }
}

TEST(Prefetcher, ManyWorkersGiveTheSameStream) {
  const BatchSource source(random_config(), Stream::train);
  MicroBatch direct;
  for (const int64_t workers : {2, 3, 8, 50}) {
    for (const int64_t depth : {1, 2, 7}) {
      Prefetcher prefetcher(source, {1, 5, 2}, 5, depth, workers);
      for (int64_t step = 5; step < 40; ++step) {
        const auto& batches = prefetcher.next();
        ASSERT_EQ(batches.size(), 5u);
        if (step % 9 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        for (int64_t i = 0; i < 5; ++i) {
          source.fill(step, 1 + 2 * i, direct);
          EXPECT_EQ(batches[static_cast<size_t>(i)].inputs, direct.inputs);
          EXPECT_EQ(batches[static_cast<size_t>(i)].token_hash, direct.token_hash);
        }
      }
    }
    Prefetcher stopped(source, {0, 12, 1}, 0, 3, workers);
    stopped.next();
  }
}

TEST(Prefetcher, MeasuresWaiting) {
  Config config = random_config();
  config.batch = {4096, 8, 64};  // some milliseconds a step
  const BatchSource source(config, Stream::train);
  Prefetcher direct(source, {0, 8, 1}, 0, 0), ahead(source, {0, 8, 1}, 0, 2);
  EXPECT_EQ(ahead.wait_seconds(), 0.0);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) direct.next();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(direct.wait_seconds(), 0.9 * spent.count());
  EXPECT_LE(direct.wait_seconds(), spent.count());
  ahead.next();
  const double first = ahead.wait_seconds();
  for (int i = 0; i < 4; ++i) {  // ten times as long as a step takes: all is ready by then
    std::this_thread::sleep_for(10 * spent / 4);
    ahead.next();
  }
  EXPECT_LT(ahead.wait_seconds() - first, 0.5 * spent.count());
}

}  // namespace
}  // namespace espalier
