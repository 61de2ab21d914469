// SPDX-License-Identifier: Apache-2.0
// The stages of building a corpus, each by itself on one rank.
#pragma once

#include <string>
#include <vector>

#include "commands/corpus_bench.hpp"
#include "commands/corpus_bench_text.hpp"

namespace espalier {

/// All of these write into `folder`, on one rank.
struct BenchPlace {
  const CorpusConfig& config;
  const BenchText& text;
  std::string folder;
  int64_t repeats = 1, seq_length = 1024;
};

std::vector<BenchRow> bench_reading(const BenchPlace& place);
std::vector<BenchRow> bench_cleaning(const BenchPlace& place);
std::vector<BenchRow> bench_hashing(const BenchPlace& place);
std::vector<BenchRow> bench_shards(const BenchPlace& place);
std::vector<BenchRow> bench_feeding(const BenchPlace& place);

/// bytes, the deck's tokenizer, and KIND=PATH each; sentencepiece models beside the library and the
/// program spm_encode, where that is to be found. What it takes to start goes to `notes`.
/// Errors    DeckError for another form
std::vector<BenchRow> bench_tokenizing(const BenchPlace& place,
                                       const std::vector<std::string>& tokenizers,
                                       std::vector<std::string>& notes);

/// Writes `bytes` bytes from one buffer and flushes them: what the disk can do.
void write_plainly(const std::string& path, int64_t bytes);

/// Whole builds: by rank 0 alone and by all, in turn. Collective; rows and notes on rank 0.
std::vector<BenchRow> bench_builds(const BenchPlace& place, int64_t bytes, Team& team,
                                   std::vector<std::string>& notes);

}  // namespace espalier
