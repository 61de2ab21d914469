// SPDX-License-Identifier: Apache-2.0
// Ranges and sums of a manifest.
#include "corpus/store/manifest_rules.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "core/error.hpp"
#include "corpus/token_header.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

bool is_printable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return count_broken_utf8(text) == 0;
}

// A file inside its store: train/NAME.tok or validation/NAME.tok, and nothing else.
bool stays_inside(const std::string& file, Stream stream) {
  const std::string folder = std::string(stream_name(stream)) + "/";
  if (file.compare(0, folder.size(), folder) != 0) return false;
  const std::string_view name = std::string_view(file).substr(folder.size());
  constexpr std::string_view kEnding = ".tok";
  return name.size() > kEnding.size() && name.front() != '.' && is_printable(name) &&
         name.substr(name.size() - kEnding.size()) == kEnding &&
         name.find('/') == std::string_view::npos && name.find('\\') == std::string_view::npos;
}

std::string find_head_fault(const StoreManifest& m) {
  if (m.vocab_size < 1 || m.vocab_size > std::numeric_limits<int32_t>::max()) {
    return fmt::format("vocab_size = {} is outside [1, 2^31 - 1]", m.vocab_size);
  }
  if (m.end_of_document < 0 || m.end_of_document >= m.vocab_size) {
    return fmt::format("end_of_document = {} is not below vocab_size {}", m.end_of_document,
                       m.vocab_size);
  }
  if (m.tokenizer.empty() || m.tokenizer.size() >= kTokenizerNameBytes ||
      !is_printable(m.tokenizer)) {
    return "the tokenizer's name is none that a token file can hold";
  }
  if (!(m.held_out >= 0.0 && m.held_out < 1.0)) {
    return fmt::format("held_out.fraction = {} is outside [0, 1)", m.held_out);
  }
  return "";
}

std::string find_source_fault(const StoreManifest& m) {
  if (m.sources.empty()) return "it names no source";
  std::set<std::string> names;
  for (const SourceRecord& source : m.sources) {
    if (source.name.empty() || !is_printable(source.name) || !is_printable(source.language)) {
      return "a source's name or language is empty or not printable";
    }
    if (!names.insert(source.name).second) {
      return fmt::format("two sources are named {}", source.name);
    }
    if (!(std::isfinite(source.weight) && source.weight >= 0.0)) {
      return fmt::format("source {} has weight {}", source.name, source.weight);
    }
  }
  return "";
}

std::string find_shard_fault(const StoreManifest& m) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  std::set<std::string> files;
  int64_t tokens = 0, text_bytes = 0;
  for (size_t i = 0; i < m.shards.size(); ++i) {
    const ShardRecord& shard = m.shards[i];
    const std::string place = fmt::format("shard {}", i);
    if (!stays_inside(shard.file, shard.stream)) {
      return fmt::format("{}: its file is not {}/NAME.tok", place, stream_name(shard.stream));
    }
    if (!files.insert(shard.file).second) {
      return fmt::format("{}: {} is named twice", place, shard.file);
    }
    if (shard.source < 0 || shard.source >= static_cast<int64_t>(m.sources.size())) {
      return fmt::format("{}: there is no source {}", place, shard.source);
    }
    if (shard.documents < 1 || shard.tokens < shard.documents || shard.text_bytes < 0) {
      return fmt::format("{}: {} documents, {} tokens and {} bytes of text cannot be", place,
                         shard.documents, shard.tokens, shard.text_bytes);
    }
    if (shard.tokens > most - tokens || shard.text_bytes > most - text_bytes) {
      return fmt::format("{}: the sum of the counts is more than any store can hold", place);
    }
    tokens += shard.tokens;  // documents are fewer
    text_bytes += shard.text_bytes;
  }
  return "";
}

OrderedJson to_json(const StoreCounts& counts) {
  return {{"documents", counts.documents},
          {"tokens", counts.tokens},
          {"text_bytes", counts.text_bytes}};
}

struct BothStreams {
  StoreCounts train, validation;
  void add(const ShardRecord& shard) {
    (shard.stream == Stream::train ? train : validation) += shard;
  }
  OrderedJson json() const {
    return {{"train", to_json(train)}, {"validation", to_json(validation)}};
  }
};

}  // namespace

StoreCounts& StoreCounts::operator+=(const ShardRecord& record) {
  documents += record.documents;
  tokens += record.tokens;
  text_bytes += record.text_bytes;
  return *this;
}

StoreCounts count_shards(const StoreManifest& manifest, Stream stream, int64_t source) {
  StoreCounts sum;
  for (const ShardRecord& shard : manifest.shards) {
    if (shard.stream == stream && (source < 0 || shard.source == source)) sum += shard;
  }
  return sum;
}

const char* stream_name(Stream stream) {
  return stream == Stream::train ? "train" : "validation";
}

std::string find_manifest_fault(const StoreManifest& manifest) {
  std::string fault = find_head_fault(manifest);
  if (fault.empty()) fault = find_source_fault(manifest);
  if (fault.empty()) fault = find_shard_fault(manifest);
  return fault;
}

OrderedJson counts_of(const StoreManifest& manifest) {
  std::vector<BothStreams> by_source(manifest.sources.size());
  std::map<std::string, BothStreams> by_language;
  BothStreams all;
  for (const SourceRecord& source : manifest.sources) by_language[source.language];
  for (const ShardRecord& shard : manifest.shards) {
    const auto source = static_cast<size_t>(shard.source);
    by_source[source].add(shard);
    by_language[manifest.sources[source].language].add(shard);
    all.add(shard);
  }
  OrderedJson sources = OrderedJson::object(), languages = OrderedJson::object();
  for (size_t i = 0; i < by_source.size(); ++i) {
    sources[manifest.sources[i].name] = by_source[i].json();
  }
  for (const auto& [language, counts] : by_language) languages[language] = counts.json();
  return {{"stream", all.json()}, {"language", languages}, {"source", sources}};
}

}  // namespace espalier
