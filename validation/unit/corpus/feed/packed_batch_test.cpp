// SPDX-License-Identifier: Apache-2.0
// Micro-batches of packed documents worked out by hand, and balanced micro-batches.
#include <gtest/gtest.h>

#include <cmath>

#include "../corpus_files.hpp"
#include "corpus/batch_source.hpp"
#include "corpus/hash.hpp"
#include "memory_tokens.hpp"

namespace espalier {
namespace {

using testing::memory_source;
using testing::open_memory;
using testing::TempFolder;
using Numbers = std::vector<int32_t>;

Config packed_config(int64_t seq_length, int64_t micro, int64_t global) {
  Config config;
  config.model.vocab_size = INT32_MAX;
  config.batch = {seq_length, micro, global};
  config.data.packing = Packing::best_fit;
  return config;
}

OpenTokens one_source(const TempFolder& folder, const std::vector<int64_t>& lengths) {
  std::vector<TokenSource> sources;
  sources.push_back(memory_source("s", folder.at(""), {lengths}));
  return open_memory(std::move(sources));
}

TEST(PackedBatch, DocumentsKeepTheirBoundaries) {
  const TempFolder folder;
  // Ids 1 2 0 | 3 .. 10 0 | 11 12 13 0, sequences of 6: the second fills one and leaves 3 tokens.
  Config config = packed_config(6, 3, 3);
  const auto tokens = [&] { return one_source(folder, {3, 9, 4}); };
  MicroBatch batch;
  BatchSource(config, Stream::validation, tokens()).fill(0, 0, batch);
  EXPECT_EQ(batch.inputs, (Numbers{3, 4, 5, 6, 7, 8, 11, 12, 13, 0, 0, 0, 1, 2, 0, 9, 10, 0}));
  EXPECT_EQ(batch.targets, (Numbers{4, 5, 6, 7, 8, 9, 12, 13, 0, -1, -1, -1, 2, 0, -1, 10, 0, -1}));
  EXPECT_EQ(batch.document_start, (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 0, 0, 0, 3, 3, 3}));
  EXPECT_EQ(batch.positions, (Numbers{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 0, 0, 0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(batch.valid_tokens, 13);
  EXPECT_EQ(batch.padding, 2);
  EXPECT_EQ(batch.attention_work, 36 + 16 + 9 + 9);
  const BatchSource source(config, Stream::validation, tokens());
  EXPECT_EQ(source.packing().padding, 2);
  EXPECT_EQ(source.packing().split_documents, 1);
  EXPECT_EQ(source.windows(), 3);

  config.data.document_mask = false;  // documents see each other, padding nobody
  BatchSource(config, Stream::validation, tokens()).fill(0, 0, batch);
  EXPECT_EQ(batch.targets, (Numbers{4, 5, 6, 7, 8, 9, 12, 13, 0, -1, -1, -1, 2, 0, 9, 10, 0, -1}));
  EXPECT_EQ(batch.document_start, (Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.attention_work, 36 + 16 + 36);

  config.data.document_mask = true;
  config.data.long_documents = LongDocuments::drop;
  config.batch = {6, 2, 2};
  const BatchSource dropped(config, Stream::validation, tokens());
  EXPECT_EQ(dropped.packing().dropped_documents, 1);
  EXPECT_EQ(dropped.packing().dropped_tokens, 9);
  dropped.fill(0, 0, batch);
  EXPECT_EQ(batch.inputs, (Numbers{11, 12, 13, 0, 0, 0, 1, 2, 0, 0, 0, 0}));
}

TEST(PackedBatch, HashIsThatOfInputsAndLastTarget) {
  const TempFolder folder;
  const BatchSource source(packed_config(6, 1, 1), Stream::validation,
                           one_source(folder, {3, 9, 4}));
  MicroBatch batch;
  for (const int64_t position : {0, 1, 2}) {
    source.fill(position, 0, batch);
    Numbers row = batch.inputs;
    row.push_back(batch.targets.back());
    EXPECT_EQ(batch.token_hash, hash_bytes(row.data(), 28, static_cast<uint64_t>(position)));
  }
}

// No token that is known to follow is lost as a target, save where documents are apart.
TEST(PackedBatch, PredictsAllThatCanBe) {
  const TempFolder folder;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto lengths = testing::skewed_lengths(seed, 50, 20);
    const BatchSource source(packed_config(3 + static_cast<int64_t>(seed), 1, 1), Stream::train,
                             one_source(folder, lengths));
    int64_t predicted = 0, documents_with_text = 0, tokens = 0;
    MicroBatch batch;
    for (int64_t p = 0; p < source.windows(); ++p) {
      source.fill(p, 0, batch);
      predicted += batch.valid_tokens;
    }
    for (const int64_t length : lengths) {
      tokens += length;
      documents_with_text += 1;
    }
    EXPECT_EQ(predicted, tokens - documents_with_text);  // all but each document's first token
  }
}

struct StepLoads {
  std::vector<double> loads;
  uint64_t hash = 0;
  double imbalance() const {
    double sum = 0.0;
    for (const double load : loads) sum += load;
    return *std::max_element(loads.begin(), loads.end()) * static_cast<double>(loads.size()) / sum;
  }
};

StepLoads loads_of(const BatchSource& source, int64_t step) {
  StepLoads all;
  MicroBatch batch;
  for (int64_t m = 0; m < source.micro_batches(); ++m) {
    source.fill(step, m, batch);
    all.loads.push_back(static_cast<double>(batch.attention_work));
    all.hash += batch.token_hash;
  }
  return all;
}

TEST(PackedBatch, BalanceEvensTheWorkAndKeepsTheSet) {
  const TempFolder folder;
  const auto lengths = testing::skewed_lengths(3, 4000, 40);
  for (const Packing packing : {Packing::chunk, Packing::best_fit}) {
    Config config = packed_config(256, 4, 64);
    config.data.packing = packing;
    const BatchSource plain(config, Stream::train, one_source(folder, lengths));
    config.data.balance = BalanceWork::attention;
    const BatchSource even(config, Stream::train, one_source(folder, lengths));
    double before = 0.0, after = 0.0;
    for (int64_t step = 0; step < 20; ++step) {
      const StepLoads a = loads_of(plain, step), b = loads_of(even, step);
      EXPECT_EQ(a.hash, b.hash);
      before += a.imbalance() / 20;
      after += b.imbalance() / 20;
    }
    EXPECT_GT(before, 1.3);
    EXPECT_LT(after, 1.0 + 0.25 * (before - 1.0));
  }
}

}  // namespace
}  // namespace espalier
