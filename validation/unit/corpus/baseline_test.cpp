// SPDX-License-Identifier: Apache-2.0
// The baseline against sums worked out another way, and against sources whose entropy is known.
#include "corpus/bigram_baseline.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "corpus/batch_source.hpp"
#include "corpus/bigram_counts.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::random_text;
using testing::TempFolder;
using testing::write_documents;

/// Letters that follow a chain: the next is the same with probability 3/4, else one of 4 by chance.
std::string chain_text(uint64_t seed, size_t bytes) {
  std::string text(bytes, 'a');
  for (size_t i = 1; i < bytes; ++i) {
    const uint64_t r = random_bits(seed, 5, i);
    text[i] = r % 4 != 0 ? text[i - 1] : static_cast<char>('a' + (r >> 8) % 4);
  }
  return text;
}

TEST(Baseline, FindsTheEntropyOfAChain) {
  const TempFolder folder;
  const auto train = write_documents(folder.at("a"), {chain_text(1, 300000)});
  const auto validation = write_documents(folder.at("b"), {chain_text(2, 300000)});
  const BaselineReport r = score_baseline({{train}, {validation}});
  const double stay = 13.0 / 16, leave = 1.0 / 16;
  const double rate = -stay * std::log(stay) - 3 * leave * std::log(leave);
  EXPECT_NEAR(r.unigram.nats_per_token, std::log(4.0), 5e-3);
  EXPECT_NEAR(r.bigram.nats_per_token, rate, 5e-3);
  // One document: 300000 letters and its end, less the first, which nothing precedes.
  EXPECT_EQ(r.scored_predictions, 300000);
  EXPECT_EQ(r.scored_bytes, 299999);
  EXPECT_NEAR(r.bigram.bits_per_byte, r.bigram.nats_per_token / std::log(2.0) * 300000 / 299999,
              1e-12);
}

// The definition written out once more, slowly, over documents instead of tokens.
TEST(Baseline, EqualsTheFormula) {
  const TempFolder folder;
  const std::vector<std::string> train = {"abab", "b", "", "caab"}, held = {"ab", "zc", "b"};
  const BaselineReport r = score_baseline(
      {{write_documents(folder.at("a"), train)}, {write_documents(folder.at("b"), held)}});
  std::map<std::pair<int, int>, double> pairs;
  std::map<int, double> before, after;
  double total = 0;
  const auto visit = [](const std::vector<std::string>& documents, auto&& f) {
    for (const auto& d : documents) {
      for (size_t i = 0; i < d.size(); ++i) f(d[i], i + 1 < d.size() ? d[i + 1] : 256);
    }
  };
  visit(train, [&](int a, int b) {
    pairs[{a, b}] += 1;
    before[a] += 1;
    after[b] += 1;
    total += 1;
  });
  EXPECT_EQ(r.train_predictions, 9);
  double unigram = 0, bigram = 0, predictions = 0;
  const double k0 = r.unigram.concentration, k1 = r.bigram.concentration;
  visit(held, [&](int a, int b) {
    const double p = (after[b] + k0 / 257) / (total + k0);
    unigram -= std::log(p);
    bigram -= std::log((pairs[{a, b}] + k1 * p) / (before[a] + k1));
    predictions += 1;
  });
  EXPECT_EQ(r.scored_predictions, 5);
  EXPECT_NEAR(r.unigram.nats_per_token, unigram / predictions, 1e-12);
  EXPECT_NEAR(r.bigram.nats_per_token, bigram / predictions, 1e-12);
}

TEST(Baseline, ModelsAreDistributions) {
  for (const int64_t vocab : {int64_t{257}, int64_t{5000}}) {  // both kinds of counts
    BigramCounts counts(vocab);
    for (uint64_t i = 0; i < 3000; ++i) {
      counts.add(static_cast<int32_t>(random_bits(1, 1, i) % 50),
                 static_cast<int32_t>(random_bits(1, 2, i) % 60));
    }
    const BigramModel model(counts);
    double sum = 0;
    for (int32_t b = 0; b < vocab; ++b) sum += model.unigram(b);
    EXPECT_NEAR(sum, 1.0, 1e-12);
    for (const int32_t a : {0, 49, 200}) {  // 200 never occurred
      sum = 0;
      for (int32_t b = 0; b < vocab; ++b) sum += model.bigram(a, b);
      EXPECT_NEAR(sum, 1.0, 1e-12);
    }
    int64_t pairs = 0;
    counts.for_each([&](int32_t before, int32_t after, int64_t count) {
      EXPECT_EQ(count, counts.pair(before, after));
      pairs += count;
    });
    EXPECT_EQ(pairs, 3000);
    EXPECT_EQ(counts.pair(200, 0), 0);
  }
}

// The concentrations come from training text alone, and are near the best for held-out text.
TEST(Baseline, ConcentrationIsNearTheBestOne) {
  BigramCounts counts(257);
  const std::string train = chain_text(3, 2000), held = chain_text(4, 20000);
  for (size_t i = 0; i + 1 < train.size(); ++i) counts.add(train[i], train[i + 1]);
  const BigramModel model(counts);
  const auto loss = [&](double k) {
    double sum = 0;
    for (size_t i = 0; i + 1 < held.size(); ++i) {
      sum -= std::log((static_cast<double>(counts.pair(held[i], held[i + 1])) +
                       k * model.unigram(held[i + 1])) /
                      (static_cast<double>(counts.before(held[i])) + k));
    }
    return sum / static_cast<double>(held.size() - 1);
  };
  double best = 1e9;
  for (double k = 1e-4; k < 1e8; k *= 1.3) best = std::min(best, loss(k));
  EXPECT_LT(loss(model.bigram_concentration()), best + 2e-3);
  EXPECT_GT(loss(1e8), best + 0.1) << "the concentration does not matter here: the test is blind";
}

// Exactly the predictions that the trainer scores, counted by the trainer's own source.
TEST(Baseline, ScoresWhatTheTrainerScores) {
  const TempFolder folder;
  std::vector<std::string> documents;
  for (uint64_t i = 0; i < 60; ++i) documents.push_back(random_text(i, i * 7 % 90));
  const auto train = write_documents(folder.at("a"), {"x" + random_text(1, 5000)});
  const auto first = write_documents(folder.at("b"), documents);
  const auto second = write_documents(folder.at("c"), {documents[50], documents[51]});
  Config config;
  config.model.vocab_size = 257;
  config.batch = {16, 1, 1};
  config.data.train = {train};
  config.data.validation = {first, second};
  config.monitor.validation_batches = 1000000;
  const BatchSource source(config, Stream::validation);
  ASSERT_GT(source.batches(), 100);
  MicroBatch batch;
  for (const int64_t batches : {int64_t{1}, int64_t{7}, source.batches()}) {
    int64_t predictions = 0, bytes = 0;
    config.monitor.validation_batches = batches;
    const BatchSource some(config, Stream::validation);
    for (int64_t step = 0; step < batches; ++step) {
      some.fill(step, 0, batch);
      predictions += batch.valid_tokens;
      for (const int32_t target : batch.targets) bytes += target >= 0 && target < 256;
    }
    const BaselineReport r = score_baseline({{train}, {first, second}, config});
    EXPECT_EQ(r.scored_predictions, predictions);
    EXPECT_EQ(r.scored_bytes, bytes);
  }
  const BaselineReport all = score_baseline({{train}, {first, second}, {}});
  EXPECT_GT(all.scored_predictions, source.batches() * 8) << "the rest of each file too";
}

TEST(Baseline, RefusesWhatCannotBeCompared) {
  const TempFolder folder;
  const auto good = write_documents(folder.at("a"), {"abc"});
  EXPECT_THROW(score_baseline({{}, {good}}), DeckError);
  EXPECT_THROW(score_baseline({{good}, {}}), DeckError);
  const auto ends = write_documents(folder.at("b"), {"", "", ""});
  EXPECT_CONTAINS(data_error([&] { score_baseline({{ends}, {good}}); }), "no two tokens");
  EXPECT_CONTAINS(data_error([&] {
                    score_baseline({{good}, {ends}});
                  }),
                  "nothing in it is predicted");
}

}  // namespace
}  // namespace espalier
