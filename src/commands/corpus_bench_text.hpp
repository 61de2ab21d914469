// SPDX-License-Identifier: Apache-2.0
// The text that espalier bench corpus works on: drawn by the deck, kept in memory, and written in
// every format that a source may have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deck/corpus_config.hpp"

namespace espalier {

/// The sample, source by source, as it was read: nothing is cleaned and nothing held out.
struct BenchText {
  std::vector<SourceConfig> sources;                // those that gave text
  std::vector<std::vector<std::string>> documents;  // [sources]
  int64_t bytes = 0, count = 0;                     // of all documents

  template <class F>
  void for_each(const F& f) const {
    for (const auto& of_source : documents)
      for (const std::string& document : of_source) f(document);
  }
};

/// About `mib` MiB of text, each source by its weight; less where there is less.
/// Errors    DataError if there is none
BenchText draw_bench_text(const CorpusConfig& config, double mib);

/// A way of keeping the same documents on the disk.
struct BenchInput {
  std::string name;
  SourceConfig source;       // reads it
  std::string against = {};  // the plain way that it is compared with
};

/// The line between documents in plain text.
extern const char* const kBenchSeparator;

/// Writes the documents as text between separators, plain, gzip and zstd, as JSON Lines, and as
/// text and HTML files of their own, into `folder`.
std::vector<BenchInput> write_bench_inputs(const BenchText& text, const std::string& folder);

/// Sources for whole builds: at least `bytes` of text, each source's documents again and again.
std::vector<SourceConfig> write_build_inputs(const BenchText& text, const std::string& folder,
                                             int64_t bytes, int64_t& written);

/// gzip and zstd by the libraries alone, at their default levels.
std::string gzip_bytes(const std::string& bytes);
std::string zstd_bytes(const std::string& bytes);
/// The size of what comes out, by the libraries alone. Errors  Internal for anything else
int64_t gunzip_alone(const std::string& bytes);
int64_t unzstd_alone(const std::string& bytes);
/// The pages' text characters, by libxml2's parser alone.
int64_t parse_alone(const std::vector<std::string>& pages);
std::string html_page(const std::string& document);

}  // namespace espalier
