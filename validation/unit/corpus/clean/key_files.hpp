// SPDX-License-Identifier: Apache-2.0
// Corpora of a few pieces as key files, and the duplicates that they hold.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "../corpus_files.hpp"
#include "corpus/clean/deduplication.hpp"

namespace espalier::testing {

using Pieces = std::vector<std::vector<std::string>>;

inline CleanConfig dedup_config(Deduplication kind, double similarity = 0.8) {
  CleanConfig config;
  config.deduplicate = kind;
  config.similarity = similarity;
  return config;
}

inline std::vector<std::string> write_keys(const TempFolder& folder, const CleanConfig& config,
                                           const Pieces& pieces) {
  std::vector<std::string> files;
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    files.push_back(folder.at("piece-" + std::to_string(piece) + ".keys"));
    KeyWriter writer(config, files.back());
    for (const std::string& document : pieces[piece]) writer.add(document);
    writer.finish();
  }
  return files;
}

inline std::vector<DuplicatePair> all_duplicates(const CleanConfig& config,
                                                 const std::vector<std::string>& files,
                                                 int64_t ranges) {
  std::vector<DuplicatePair> all;
  for (int64_t range = 0; range < ranges; ++range) {
    const std::vector<DuplicatePair> found = find_duplicates(config, files, range, ranges);
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
    all.insert(all.end(), found.begin(), found.end());
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

inline std::vector<DroppedDocument> dropped_of(const CleanConfig& config, const Pieces& pieces) {
  const TempFolder folder;
  return choose_dropped(all_duplicates(config, write_keys(folder, config, pieces), 1));
}

inline std::string as_text(const std::vector<DroppedDocument>& dropped) {
  std::string text;
  for (const DroppedDocument& d : dropped)
    text += fmt::format("{}.{}{} ", d.id.piece, d.id.index, d.is_exact ? "" : "~");
  return text;
}

}  // namespace espalier::testing
