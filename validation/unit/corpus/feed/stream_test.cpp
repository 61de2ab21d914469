// SPDX-License-Identifier: Apache-2.0
// Properties of the stream: the same however it is cut, each document once an epoch, exact shares.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "corpus/prefetcher.hpp"
#include "stream_stretch.hpp"

namespace espalier {
namespace {

using namespace testing;

TEST(Stream, IsTheSameHoweverItIsCut) {
  const TempFolder folder;
  for (Config config : many_configs()) {
    const BatchSource whole(config, Stream::train, three_sources(folder));
    const Stretch expected = stretch(whole, 0, 12);
    for (const int64_t micro : {1, 3, 4, 6, 12}) {
      config.batch.micro_batch_size = micro;
      const BatchSource cut(config, Stream::train, three_sources(folder));
      EXPECT_TRUE(stretch(cut, 0, 12) == expected) << micro;
    }
    config.batch.micro_batch_size = 2;
    for (const int64_t workers : {1, 4})
      for (const int64_t ranks : {1, 2, 3}) {
        const BatchSource shared(config, Stream::train, three_sources(folder));
        Stretch all;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          Prefetcher ahead(shared, {rank, 6 / ranks, ranks}, 0, 3, workers);
          for (int64_t step = 0; step < 12; ++step)
            for (const MicroBatch& batch : ahead.next()) add_rows(batch, all);
        }
        EXPECT_TRUE(all == expected) << workers << " workers, " << ranks << " ranks";
      }
    if (!config.data.curriculum.empty()) continue;  // its steps are other positions then
    for (const int64_t global : {2, 6, 24, 36}) {
      config.batch.global_batch_size = global;
      const BatchSource other(config, Stream::train, three_sources(folder));
      EXPECT_TRUE(stretch(other, 0, 144 / global) == expected) << global;
    }
  }
}

TEST(Stream, EachDocumentOnceAnEpoch) {
  const TempFolder folder;
  for (const Packing packing : {Packing::chunk, Packing::best_fit})
    for (const int64_t length : {1, 2, 3, 5, 8, 13, 40, 200, 1000}) {
      std::vector<std::vector<int64_t>> parts;
      for (uint64_t i = 0; i < 3; ++i)
        parts.push_back(skewed_lengths(i + static_cast<uint64_t>(length), 40, 30));
      Config config = small_config(length, 1, 1);
      config.data.packing = packing;
      std::vector<TokenSource> sources;
      const std::string name = "s" + std::to_string(length);
      sources.push_back(memory_source(name, folder.at(""), parts));
      size_t ids = 0, readable = 0;
      for (const auto& part : sources[0].parts) {
        Tokens all(static_cast<size_t>(part->tokens()));
        part->read(0, part->tokens(), all.data());
        const auto text = [](int32_t token) { return token != 0; };
        ids += static_cast<size_t>(std::count_if(all.begin(), all.end(), text));
        const int64_t windows = (part->tokens() - 1) / length;
        readable +=
            static_cast<size_t>(std::count_if(all.begin(), all.begin() + windows * length, text));
      }
      const BatchSource source(config, Stream::train, open_memory(std::move(sources)));
      const int64_t n = source.windows();
      const auto count = uses(stretch(source, 0, 3 * n));
      EXPECT_EQ(count.size(), packing == Packing::best_fit ? ids : readable) << length;
      for (const auto& [id, times] : count) ASSERT_EQ(times, 3) << id << " at length " << length;
    }
}

TEST(Stream, MixesInTheSharesOfTheDeck) {
  const TempFolder folder;
  Config config = small_config(3, 64, 4096);
  config.data.weights = {"a = 1", "b = 2", "c = 1"};
  const BatchSource source(config, Stream::train, three_sources(folder));
  std::map<int32_t, int64_t> count;
  MicroBatch batch;
  for (int64_t step = 16; step < 32; ++step)  // the second block
    for (int64_t m = 0; m < source.micro_batches(); ++m) {
      source.fill(step, m, batch);
      for (int64_t row = 0; row < 64; ++row) {
        const Tokens own(batch.inputs.begin() + row * 3, batch.inputs.begin() + (row + 1) * 3);
        const int32_t id = *std::max_element(own.begin(), own.end());
        if (id > 0)
          ++count[id / kIdsOfASource];
        else
          ++count[-1];  // end tokens alone: of any source
      }
    }
  EXPECT_LT(count[-1], 3000);
  EXPECT_NEAR(static_cast<double>(count[0]), 16384.0, static_cast<double>(count[-1]) + 0.5);
  EXPECT_NEAR(static_cast<double>(count[1]), 32768.0, static_cast<double>(count[-1]) + 0.5);
  EXPECT_NEAR(static_cast<double>(count[2]), 16384.0, static_cast<double>(count[-1]) + 0.5);
  EXPECT_EQ(source.mixture_at(0).quota, (std::vector<int64_t>{16384, 32768, 16384}));
  EXPECT_DOUBLE_EQ(source.sources(0)[1].share, 0.5);
  const auto after = source.sources(16);
  for (size_t s = 0; s < 3; ++s)
    EXPECT_DOUBLE_EQ(after[s].epochs, static_cast<double>(source.mixture_at(0).quota[s]) /
                                          static_cast<double>(after[s].samples));
}

TEST(Stream, WeightsComeFromDeckTemperatureOrManifest) {
  const TempFolder folder;
  const auto quota = [&](const Config& config, std::vector<double> manifest) {
    std::vector<TokenSource> sources;
    for (size_t s = 0; s < manifest.size(); ++s)
      sources.push_back(memory_source(std::string(1, static_cast<char>('a' + s)), folder.at(""),
                                      {{1 + (s == 0 ? 800 : 200)}}, manifest[s]));
    return BatchSource(config, Stream::train, open_memory(std::move(sources))).mixture_at(0).quota;
  };
  Config config = small_config(4, 1, 1);
  using Quota = std::vector<int64_t>;
  EXPECT_EQ(quota(config, {1, 1}), Quota{});  // merged
  EXPECT_EQ(quota(config, {0, 1}), Quota{});  // files without a weight count as 1
  // 801 tokens and twice 201.
  EXPECT_EQ(quota(config, {1, 2}), mixture_quotas({801, 402}));
  config.data.temperature = 2.0;
  EXPECT_EQ(quota(config, {1, 2}), mixture_quotas({std::sqrt(801.0), std::sqrt(201.0)}));
  EXPECT_EQ(quota(config, {3}), Quota{});  // one source has nothing to mix
  config.data.weights = {"a = 1", "b = 3"};
  EXPECT_EQ(quota(config, {1, 2}), mixture_quotas({1, 3}));
  config.data.weights.clear();
  config.data.curriculum = {"1: a = 0, b = 3"};
  EXPECT_EQ(quota(config, {1, 2}), (Quota{0, 65536}));
}

TEST(Stream, SeeksFar) {
  const TempFolder folder;
  for (Config config : many_configs()) {
    config.batch.global_batch_size = 2;
    const BatchSource source(config, Stream::train, three_sources(folder));
    MicroBatch batch;
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t step = 500000000000000; step < 500000000000020; ++step)
      source.fill(step, 0, batch);
    EXPECT_EQ(batch.first_token[0] / 7, source.position_of(500000000000019));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(spent.count(), 2.0);
  }
}

TEST(Stream, RefusesWrongSources) {
  const TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& weights,
                           const std::vector<std::string>& curriculum) {
    Config config = small_config(5, 1, 1);
    config.data.weights = weights;
    config.data.curriculum = curriculum;
    try {
      BatchSource(config, Stream::train, three_sources(folder));
    } catch (const DeckError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_CONTAINS(refused({"a = 1", "b = 1", "d = 1"}, {}),
                  "data.weights names d, but the sources of data.train are a, b, c");
  EXPECT_CONTAINS(refused({"a = 1", "b = 1"}, {}), "data.weights leaves out c");
  EXPECT_CONTAINS(refused({}, {"3: a = 1"}), "data.curriculum leaves out b");
  EXPECT_EQ(refused({"a = 1", "b = 1", "c = 0"}, {}), "no error");

  Config config = small_config(5, 1, 1);
  const auto with_little = [&] {
    std::vector<TokenSource> sources;
    sources.push_back(memory_source("a", folder.at(""), {{100}, {3}}));
    sources.push_back(memory_source("little", folder.at(""), {{4}}));
    return open_memory(std::move(sources));
  };
  EXPECT_EQ(BatchSource(config, Stream::train, with_little()).windows(), 19);  // warns
  config.data.weights = {"a = 1", "little = 1"};
  EXPECT_CONTAINS(data_error([&] { BatchSource(config, Stream::train, with_little()); }),
                  "little: its 4 tokens fill no sequence, but it has a weight of 1");
  config.data.weights = {"a = 1", "little = 0"};
  EXPECT_EQ(BatchSource(config, Stream::train, with_little()).windows(), 19);
  BatchSource source(config, Stream::train, with_little());
  EXPECT_CONTAINS(data_error([&] {
                    source.continue_from(1, 5, {9, {"a", "little"}, {9, 0}, {65536, 0}});
                  }),
                  "begins at position 9, behind its position 5");
}

TEST(Stream, SaysWhatRepeats) {
  const TempFolder folder;
  Config config = small_config(5, 1, 100);
  config.data.weights = {"a = 1", "b = 1", "c = 1"};
  const BatchSource source(config, Stream::train, three_sources(folder));
  EXPECT_TRUE(source.repeat_warnings(1).empty());
  EXPECT_TRUE(source.repeat_notes(1).empty() || source.sources(1)[2].epochs > 1.0);
  int64_t steps = 1;
  while (source.sources(steps)[2].epochs <= 4.0) ++steps;
  const auto warnings = source.repeat_warnings(steps);
  ASSERT_GE(warnings.size(), 1u);
  EXPECT_CONTAINS(warnings.back(), "source c (");
  EXPECT_CONTAINS(warnings.back(), "arXiv 2305.16264");
  EXPECT_EQ(warnings.size() + source.repeat_notes(steps).size(), 3u);
}

}  // namespace
}  // namespace espalier
