// SPDX-License-Identifier: Apache-2.0
// What a build is going to do: the files, their pieces, and where everything goes. The same for
// every number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus/source/input_list.hpp"
#include "corpus/store/token_array.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

/// Names of the files of a build.
struct BuildFolder {
  std::string output;  // the store, once it is whole
  std::string building() const { return output + ".building"; }
  std::string work() const { return building() + "/work"; }
  std::string plan() const { return work() + "/plan.json"; }
  std::string board() const { return work() + "/progress"; }
  std::string raw() const { return work() + "/raw"; }
  std::string record(int64_t piece) const;        ///< its presence: the piece is read
  std::string final_record(int64_t piece) const;  ///< its presence: duplicates are out
  std::string keys(int64_t piece) const;
  std::string sides(int64_t piece) const;
  std::string pairs(int64_t range) const;
};

struct BuildPlan {
  CorpusConfig config;
  std::string tokenizer;                      // its name
  std::vector<std::vector<InputFile>> files;  // by source
  std::vector<int64_t> first_piece;           // of each source, and behind the last
  std::vector<InputPiece> pieces;             // by source

  int64_t bytes() const;  ///< of all inputs on the disk
  bool deduplicates() const { return config.clean.deduplicate != Deduplication::none; }
  /// "train/NAME-00012.tok": number of the piece within its source.
  std::string shard_name(int64_t piece, Stream stream) const;
};

/// Lists the files of all sources and cuts them. Errors  DataError; DeckError for what no piece
/// could be built by, and for an output among the inputs
BuildPlan make_build_plan(const CorpusConfig& config, const std::string& tokenizer);

/// The plan as JSON, with a fingerprint of all that decides the bytes of the store: the deck, the
/// tokenizer, and the inputs' names, sizes and times of change.
std::string encode_plan(const BuildPlan& plan);
/// Errors  DataError for what encode_plan did not write
BuildPlan decode_plan(const std::string& text, const CorpusConfig& config, const std::string& path);

/// What differs between two encoded plans, a line each; empty if nothing does.
std::vector<std::string> plan_differences(const std::string& before, const std::string& after);

/// Hash of the deck, the tokenizer and the inputs' names and sizes: stands in the store.
std::string plan_fingerprint(const BuildPlan& plan);

}  // namespace espalier
