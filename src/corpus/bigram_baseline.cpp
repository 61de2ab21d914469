// SPDX-License-Identifier: Apache-2.0
// Counting training files and scoring held-out files.
#include "corpus/bigram_baseline.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "corpus/batch_source.hpp"
#include "corpus/bigram_counts.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/store/token_array.hpp"
#include "corpus/tokenizer.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"

namespace espalier {
namespace {

constexpr int64_t kBlock = 65536;  // tokens read at once

// Calls f(before, after) for each prediction inside the documents of an array.
template <class F>
void for_each_prediction(const TokenArray& array, F&& f) {
  const int32_t end = array.end_of_document();
  std::vector<int32_t> block(static_cast<size_t>(kBlock) + 1);
  const int64_t count = array.tokens() - 1;
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t part = std::min(kBlock, count - at);
    array.read(at, part + 1, block.data());
    for (size_t i = 0; i < static_cast<size_t>(part); ++i) {
      if (block[i] != end) f(block[i], block[i + 1]);
    }
  }
}

OpenTokens open_all(const std::vector<std::string>& paths, Stream stream, VerifyData verify) {
  if (paths.empty())
    throw DeckError(fmt::format("corpus baseline: --{} names no file", stream_name(stream)));
  DataConfig config;
  config.verify = verify;
  return open_tokens(paths, stream, config, 0);
}

// Bytes of text that each id stands for: 0 for the end of a document.
std::vector<int64_t> bytes_of_ids(const Tokenizer& tokenizer) {
  std::vector<int64_t> bytes;
  std::string text;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    text.clear();
    tokenizer.append_text(&id, 1, text);
    bytes.push_back(static_cast<int64_t>(text.size()));
  }
  return bytes;
}

struct Sums {
  double unigram = 0.0, bigram = 0.0;  // nats
  int64_t predictions = 0, bytes = 0;
};

void add_prediction(Sums& sums, const BigramModel& model, const std::vector<int64_t>& bytes,
                    int32_t before, int32_t after) {
  sums.unigram -= std::log(model.unigram(after));
  sums.bigram -= std::log(model.bigram(before, after));
  sums.predictions += 1;
  sums.bytes += bytes[static_cast<size_t>(after)];
}

// What a run validates on.
Sums score_batches(const Config& config, const BigramModel& model,
                   const std::vector<int64_t>& bytes) {
  const BatchSource source(config, Stream::validation);
  Sums sums;
  MicroBatch batch;
  for (int64_t step = 0; step < source.batches(); ++step)
    for (int64_t m = 0; m < source.micro_batches(); ++m) {
      source.fill(step, m, batch);
      for (size_t i = 0; i < batch.targets.size(); ++i)
        if (batch.targets[i] >= 0)
          add_prediction(sums, model, bytes, batch.inputs[i], batch.targets[i]);
    }
  return sums;
}

Sums score_all(const OpenTokens& tokens, const BigramModel& model,
               const std::vector<int64_t>& bytes) {
  Sums sums;
  for (const TokenSource& source : tokens.sources)
    for (const auto& part : source.parts)
      for_each_prediction(*part, [&](int32_t before, int32_t after) {
        add_prediction(sums, model, bytes, before, after);
      });
  return sums;
}

// A store keeps its tokenizer beside it; a token file alone can only be of the plainest.
std::unique_ptr<Tokenizer> tokenizer_of(const OpenTokens& tokens, const std::string& path) {
  if (tokens.tokenizer.empty())
    throw DataError(fmt::format(
        "{}: does not say its tokenizer, and bytes cannot be counted without it; give stores or "
        "token files of corpus build",
        path));
  auto tokenizer = tokens.tokenizer_folder.empty()
                       ? make_tokenizer(tokens.tokenizer)
                       : open_tokenizer(tokens.tokenizer_folder, tokens.tokenizer);
  if (tokenizer->vocab_size() != tokens.vocab_size)
    throw DataError(fmt::format("{}: vocab_size {}, but its tokenizer {} has {}; rebuild it", path,
                                tokens.vocab_size, tokens.tokenizer, tokenizer->vocab_size()));
  return tokenizer;
}

BaselineScore make_score(double nats, const Sums& sums, double concentration) {
  return {nats / static_cast<double>(sums.predictions),
          nats / std::log(2.0) / static_cast<double>(sums.bytes), concentration};
}

}  // namespace

BaselineReport score_baseline(const BaselineRequest& request) {
  const OpenTokens train = open_all(request.train, Stream::train, VerifyData::full);
  const OpenTokens validation = open_all(request.validation, Stream::validation, VerifyData::full);
  require_same_tokenizer(train, validation);
  const auto tokenizer = tokenizer_of(train, request.train.front());
  BigramCounts counts(train.vocab_size);
  for (const TokenSource& source : train.sources)
    for (const auto& part : source.parts)
      for_each_prediction(*part, [&](int32_t a, int32_t b) { counts.add(a, b); });
  if (counts.total() == 0) {
    throw DataError(fmt::format("{}: holds no two tokens of one document; give more text",
                                request.train.front()));
  }
  const BigramModel model(counts);
  const std::vector<int64_t> bytes = bytes_of_ids(*tokenizer);
  const Sums sums =
      request.run ? score_batches(*request.run, model, bytes) : score_all(validation, model, bytes);
  if (sums.bytes == 0) {
    throw DataError(
        fmt::format("{}: nothing in it is predicted from a token before it; give more "
                    "text",
                    request.validation.front()));
  }
  BaselineReport report;
  report.unigram = make_score(sums.unigram, sums, model.unigram_concentration());
  report.bigram = make_score(sums.bigram, sums, model.bigram_concentration());
  report.train_predictions = counts.total();
  report.scored_predictions = sums.predictions;
  report.scored_bytes = sums.bytes;
  report.vocab_size = train.vocab_size;
  report.tokenizer = train.tokenizer;
  return report;
}

}  // namespace espalier
