// SPDX-License-Identifier: Apache-2.0
// Three small sources, many ways to mix them, and what stands at the positions of their stream.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../corpus_files.hpp"
#include "corpus/batch_source.hpp"
#include "memory_tokens.hpp"

namespace espalier::testing {

using Tokens = std::vector<int32_t>;

constexpr int32_t kIdsOfASource = 10000000;  // ids of source s begin at s times this

inline Config small_config(int64_t seq_length, int64_t micro, int64_t global) {
  Config config;
  config.model.vocab_size = INT32_MAX;
  config.batch = {seq_length, micro, global};
  return config;
}

/// Sources a, b, c of falling size, two arrays each.
inline OpenTokens three_sources(const TempFolder& folder) {
  std::vector<TokenSource> sources;
  const char* const names[] = {"a", "b", "c"};
  for (int32_t s = 0; s < 3; ++s)
    sources.push_back(memory_source(
        names[s], folder.at(""),
        {skewed_lengths(static_cast<uint64_t>(s), 60 >> s, 12), skewed_lengths(9, 30 >> s, 9)}, 1.0,
        1 + s * kIdsOfASource));
  return open_memory(std::move(sources));
}

/// What stands at each position that some steps use, and where it is padded.
using Stretch = std::map<int64_t, std::vector<Tokens>>;

inline void add_rows(const MicroBatch& batch, Stretch& all) {
  const auto length = static_cast<std::ptrdiff_t>(batch.length);
  for (std::ptrdiff_t row = 0; row < static_cast<std::ptrdiff_t>(batch.sequences); ++row) {
    std::vector<Tokens> parts;
    for (const Tokens* array :
         {&batch.inputs, &batch.targets, &batch.positions, &batch.document_start})
      parts.emplace_back(array->begin() + row * length, array->begin() + (row + 1) * length);
    const int64_t position = batch.first_token[static_cast<size_t>(row)] / batch.length;
    EXPECT_TRUE(all.emplace(position, std::move(parts)).second) << "twice: " << position;
  }
}

inline Stretch stretch(const BatchSource& source, int64_t first_step, int64_t steps) {
  Stretch all;
  MicroBatch batch;
  for (int64_t step = first_step; step < first_step + steps; ++step)
    for (int64_t m = 0; m < source.micro_batches(); ++m) {
      source.fill(step, m, batch);
      add_rows(batch, all);
    }
  return all;
}

/// How often each token (but end of document and padding) was an input.
inline std::map<int32_t, int64_t> uses(const Stretch& all) {
  std::map<int32_t, int64_t> count;
  for (const auto& [position, parts] : all)
    for (const int32_t token : parts[0])
      if (token != 0) ++count[token];
  return count;
}

/// Requires that tokens of a source were used alike often, up to one pass that is not finished.
inline void expect_even_use(const std::map<int32_t, int64_t>& count, const std::set<int32_t>& ids) {
  std::map<int32_t, std::pair<int64_t, int64_t>> range;  // of a source: least, most
  for (const int32_t id : ids) {
    const auto found = count.find(id);
    const int64_t times = found == count.end() ? 0 : found->second;
    const auto [entry, is_new] = range.try_emplace(id / kIdsOfASource, times, times);
    entry->second.first = std::min(entry->second.first, times);
    entry->second.second = std::max(entry->second.second, times);
  }
  for (const auto& [source, least_most] : range)
    EXPECT_LE(least_most.second - least_most.first, 1) << "source " << source;
}

/// Ids that the samples of all sources hold: in a chunked array, ends are never read.
inline std::set<int32_t> readable_ids(const TempFolder& folder, const Config& config) {
  Config plain = config;
  plain.data.weights.clear();
  plain.data.curriculum.clear();
  plain.data.skip.clear();
  plain.data.temperature = 1.0;
  plain.batch = {config.batch.seq_length, 1, 1};
  const BatchSource merged(plain, Stream::train, three_sources(folder));
  std::set<int32_t> ids;
  for (const auto& [id, times] : uses(stretch(merged, 0, merged.windows()))) {
    EXPECT_EQ(times, 1) << id;
    ids.insert(id);
  }
  return ids;
}

inline std::vector<Config> many_configs() {
  std::vector<Config> configs;
  for (const Packing packing : {Packing::chunk, Packing::best_fit})
    for (const int wish : {0, 1, 2, 3}) {
      Config config = small_config(7, 2, 12);
      config.data.packing = packing;
      if (wish == 1) config.data.temperature = 3.0;
      if (wish >= 2) config.data.weights = {"b = 0.5", "a=2", "c = 1"};
      if (wish == 3) {
        config.data.curriculum = {"4: a = 1, b = 1, c = 0", "9: a = 0, b = 1, c = 4"};
        config.data.skip = {{3, 8}, {30, 31}, {31, 40}, {90, 170}};
      }
      configs.push_back(config);
    }
  return configs;
}

}  // namespace espalier::testing
