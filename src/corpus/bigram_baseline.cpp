// SPDX-License-Identifier: Apache-2.0
// Counting training files and scoring held-out files.
#include "corpus/bigram_baseline.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "corpus/bigram_counts.hpp"
#include "corpus/token_file.hpp"
#include "corpus/token_windows.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {
namespace {

constexpr int64_t kBlock = 65536;  // tokens read at once

// Calls f(before, after) for each prediction that starts at tokens [0, count) of the file.
template <class F>
void for_each_prediction(const TokenFile& file, int64_t count, F&& f) {
  const auto end = static_cast<int32_t>(file.header().end_of_document);
  std::vector<int32_t> block(static_cast<size_t>(kBlock) + 1);
  count = std::min(count, file.tokens() - 1);
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t part = std::min(kBlock, count - at);
    file.read(at, part + 1, block.data());
    for (size_t i = 0; i < static_cast<size_t>(part); ++i) {
      if (block[i] != end) f(block[i], block[i + 1]);
    }
  }
}

std::vector<TokenFile> open_all(const std::vector<std::string>& paths, const char* option) {
  if (paths.empty()) throw DeckError(fmt::format("corpus baseline: {} names no file", option));
  std::vector<TokenFile> files;
  for (const std::string& path : paths) files.emplace_back(path, VerifyData::full);
  return files;
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

// The windows that BatchSource validates on.
Sums score_windows(const BaselineRequest& request, const BigramModel& model,
                   const std::vector<int64_t>& bytes) {
  const FileWindows windows(request.validation, request.seq_length, VerifyData::header);
  const int64_t wanted = request.windows > 0 ? request.windows : windows.windows();
  if (wanted > windows.windows())
    throw DataError(
        fmt::format("{}: only {} windows of {} tokens, {} were asked for; ask for fewer",
                    request.validation.front(), windows.windows(), request.seq_length, wanted));
  Sums sums;
  std::vector<int32_t> tokens(static_cast<size_t>(request.seq_length) + 1);
  for (int64_t i = 0; i < wanted; ++i) {
    windows.read(spread_window(i, wanted, windows.windows()), tokens.data());
    for (size_t t = 0; t + 1 < tokens.size(); ++t)
      if (tokens[t] != windows.end_of_document())
        add_prediction(sums, model, bytes, tokens[t], tokens[t + 1]);
  }
  return sums;
}

Sums score_all(const std::vector<TokenFile>& files, const BigramModel& model,
               const std::vector<int64_t>& bytes) {
  Sums sums;
  for (const TokenFile& file : files)
    for_each_prediction(file, file.tokens(), [&](int32_t before, int32_t after) {
      add_prediction(sums, model, bytes, before, after);
    });
  return sums;
}

BaselineScore make_score(double nats, const Sums& sums, double concentration) {
  return {nats / static_cast<double>(sums.predictions),
          nats / std::log(2.0) / static_cast<double>(sums.bytes), concentration};
}

}  // namespace

BaselineReport score_baseline(const BaselineRequest& request) {
  if (request.seq_length < 0 || request.windows < 0 ||
      (request.windows > 0 && request.seq_length == 0)) {
    throw DeckError(fmt::format(
        "corpus baseline: --windows {} with --seq-length {} (a window needs a length of 1 or "
        "more); give both, or neither",
        request.windows, request.seq_length));
  }
  const std::vector<TokenFile> train = open_all(request.train, "--train");
  const std::vector<TokenFile> validation = open_all(request.validation, "--validation");
  for (const TokenFile& file : train) require_same_tokenizer(train.front(), file);
  for (const TokenFile& file : validation) require_same_tokenizer(train.front(), file);
  const TokenHeader& header = train.front().header();
  const auto tokenizer = make_tokenizer(header.tokenizer);
  if (tokenizer->vocab_size() != header.vocab_size) {
    throw DataError(fmt::format("{}: vocab_size {}, but its tokenizer {} has {}; rebuild it",
                                train.front().path(), header.vocab_size, header.tokenizer,
                                tokenizer->vocab_size()));
  }

  BigramCounts counts(header.vocab_size);
  for (const TokenFile& file : train) {
    for_each_prediction(file, file.tokens(), [&](int32_t a, int32_t b) { counts.add(a, b); });
  }
  if (counts.total() == 0) {
    throw DataError(fmt::format("{}: holds no two tokens of one document; give more text",
                                train.front().path()));
  }
  const BigramModel model(counts);
  const std::vector<int64_t> bytes = bytes_of_ids(*tokenizer);
  const Sums sums = request.seq_length > 0 ? score_windows(request, model, bytes)
                                           : score_all(validation, model, bytes);
  if (sums.bytes == 0) {
    throw DataError(
        fmt::format("{}: nothing in it is predicted from a token before it; give more "
                    "text, or a smaller --seq-length",
                    validation.front().path()));
  }
  BaselineReport report;
  report.unigram = make_score(sums.unigram, sums, model.unigram_concentration());
  report.bigram = make_score(sums.bigram, sums, model.bigram_concentration());
  report.train_predictions = counts.total();
  report.scored_predictions = sums.predictions;
  report.scored_bytes = sums.bytes;
  report.vocab_size = header.vocab_size;
  report.tokenizer = header.tokenizer;
  return report;
}

}  // namespace espalier
