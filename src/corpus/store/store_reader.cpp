// SPDX-License-Identifier: Apache-2.0
// Stores: opening, verifying and finding documents.
#include "corpus/store/store_reader.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/held_out.hpp"
#include "corpus/store/mapped_file.hpp"
#include "corpus/store/shard_index.hpp"

namespace espalier {
namespace {

constexpr const char* kRebuild = "copy the store again, or rebuild it with espalier corpus build";

void compare_checksum(const std::string& path, uint64_t expected) {
  const MappedFile file(path);
  const uint64_t found = hash_bytes(file.data(), static_cast<size_t>(file.size()));
  if (found == expected) return;
  throw DataError(fmt::format(
      "{}: is not the file that the manifest lists (checksum {:016x}, but its bytes give {:016x}); "
      "{}",
      path, expected, found, kRebuild));
}

// The one document at hand against what the index and the manifest say about it.
class DocumentCheck {
 public:
  DocumentCheck(const Shard& shard, const StoreManifest& manifest, const ShardRecord& record,
                const Tokenizer* lossless)
      : shard_(shard), manifest_(manifest), record_(record), lossless_(lossless) {}

  void check(int64_t i) {
    read(i);
    const auto end = std::find(tokens_.begin(), tokens_.end(), shard_.end_of_document());
    if (end + 1 != tokens_.end()) {
      fail(i, end == tokens_.end() ? "has no end-of-document token"
                                   : fmt::format("has an end-of-document token after {} of its {}",
                                                 end - tokens_.begin(), tokens_.size()));
    }
    if (lossless_ != nullptr) check_text(i);
  }

 private:
  [[noreturn]] void fail(int64_t i, const std::string& what) const {
    throw DataError(fmt::format("{}: document {} {}; {}", shard_.path(), i, what, kRebuild));
  }

  void read(int64_t i) {
    const int64_t begin = shard_.document_begin(i), end = shard_.document_begin(i + 1);
    if (end <= begin) fail(i, fmt::format("ends at token {}, before its begin {}", end, begin));
    tokens_.resize(static_cast<size_t>(end - begin));
    shard_.read(begin, end - begin, tokens_.data());
  }

  void check_text(int64_t i) {
    text_.clear();
    lossless_->append_text(tokens_.data(), static_cast<int64_t>(tokens_.size()) - 1, text_);
    if (static_cast<int64_t>(text_.size()) != shard_.document_text_bytes(i)) {
      fail(i, fmt::format("decodes to {} bytes of text, but the index says {}", text_.size(),
                          shard_.document_text_bytes(i)));
    }
    const uint64_t hash = hash_bytes(text_.data(), text_.size());
    if (hash != shard_.document_hash(i)) {
      fail(i, fmt::format("decodes to a text with hash {:016x}, but the index says {:016x}", hash,
                          shard_.document_hash(i)));
    }
    const bool held_out = is_held_out(text_, manifest_.held_out, manifest_.seed);
    if (held_out != (record_.stream == Stream::validation)) {
      fail(i, fmt::format("belongs to the {} stream by held_out = {} and seed {}",
                          stream_name(held_out ? Stream::validation : Stream::train),
                          manifest_.held_out, manifest_.seed));
    }
  }

  const Shard& shard_;
  const StoreManifest& manifest_;
  const ShardRecord& record_;
  const Tokenizer* lossless_;
  std::vector<int32_t> tokens_;
  std::string text_;
};

std::string row(const std::string& name, const std::string& language, const std::string& weight,
                const StoreCounts& counts) {
  const double per_token = counts.tokens == 0 ? 0.0
                                              : static_cast<double>(counts.text_bytes) /
                                                    static_cast<double>(counts.tokens);
  return fmt::format("{:<24} {:<10} {:>8} {:>14} {:>18} {:>18} {:>11.3f}\n", name, language, weight,
                     counts.documents, counts.tokens, counts.text_bytes, per_token);
}

}  // namespace

std::unique_ptr<const Shard> open_store_shard(const std::string& store,
                                              const StoreManifest& manifest,
                                              const ShardRecord& record, VerifyData verify) {
  const std::string path = store + "/" + record.file;
  if (verify == VerifyData::full) {  // these stand for the checksums inside the files
    compare_checksum(path, record.checksum);
    compare_checksum(index_path(path), record.index_checksum);
  }
  auto shard = std::make_unique<Shard>(path, VerifyData::header);
  if (shard->documents() != record.documents || shard->tokens() != record.tokens ||
      shard->text_bytes() != record.text_bytes) {
    throw DataError(fmt::format(
        "{}: holds {} documents, {} tokens and {} bytes of text, but the manifest says {}, {} and "
        "{}; {}",
        path, shard->documents(), shard->tokens(), shard->text_bytes(), record.documents,
        record.tokens, record.text_bytes, kRebuild));
  }
  if (shard->tokenizer() != manifest.tokenizer || shard->vocab_size() != manifest.vocab_size ||
      shard->end_of_document() != manifest.end_of_document) {
    throw DataError(fmt::format(
        "{}: made by tokenizer {} (vocab_size {}, end of document {}), but the manifest says {} "
        "({}, {}); {}",
        path, shard->tokenizer(), shard->vocab_size(), shard->end_of_document(), manifest.tokenizer,
        manifest.vocab_size, manifest.end_of_document, kRebuild));
  }
  if (verify == VerifyData::full) shard->verify_ends();
  return shard;
}

ShardCheck verify_shard(const std::string& store, const StoreManifest& manifest,
                        const ShardRecord& record, const Tokenizer* lossless) {
  const auto shard = open_store_shard(store, manifest, record, VerifyData::full);
  // The index again: its order and sums, which its checksum does not promise.
  ShardIndex(index_path(shard->path()), VerifyData::full);
  DocumentCheck documents(*shard, manifest, record, lossless);
  for (int64_t i = 0; i < shard->documents(); ++i) documents.check(i);
  ShardCheck check;
  check.counts += record;
  check.texts = lossless == nullptr ? 0 : shard->documents();
  return check;
}

DocumentPlace locate_document(const StoreManifest& manifest, int64_t number,
                              const std::string& store) {
  int64_t left = number;
  for (const Stream stream : {Stream::train, Stream::validation}) {
    for (size_t i = 0; i < manifest.shards.size() && left >= 0; ++i) {
      const ShardRecord& shard = manifest.shards[i];
      if (shard.stream != stream) continue;
      if (left < shard.documents) return {static_cast<int64_t>(i), left};
      left -= shard.documents;
    }
  }
  const int64_t all = count_shards(manifest, Stream::train).documents +
                      count_shards(manifest, Stream::validation).documents;
  throw DataError(fmt::format("{}: has no document {}; {}", store, number,
                              all == 0 ? std::string("it has none at all")
                                       : fmt::format("its documents are 0 to {}", all - 1)));
}

std::vector<int32_t> document_tokens(const TokenArray& array, int64_t i) {
  const int64_t begin = array.document_begin(i), end = array.document_begin(i + 1);
  if (end < begin) {
    throw DataError(fmt::format("{}: document {} begins at token {} and ends at {}; {}",
                                array.path(), i, begin, end, kRebuild));
  }
  std::vector<int32_t> tokens(static_cast<size_t>(end - begin));
  array.read(begin, end - begin, tokens.data());
  if (!tokens.empty() && array.end_of_document() >= 0 && tokens.back() == array.end_of_document()) {
    tokens.pop_back();
  }
  return tokens;
}

StoreDocument read_document(const std::string& store, const StoreManifest& manifest,
                            int64_t number) {
  StoreDocument document;
  document.place = locate_document(manifest, number, store);
  const auto shard =
      open_store_shard(store, manifest, manifest.shards[static_cast<size_t>(document.place.shard)],
                       VerifyData::header);
  document.hash = shard->document_hash(document.place.document);
  document.text_bytes = shard->document_text_bytes(document.place.document);
  document.tokens = document_tokens(*shard, document.place.document);
  return document;
}

std::string describe_store(const StoreManifest& manifest) {
  std::string text = fmt::format(
      "tokenizer {}, vocab_size {}, end of document {}; held out {} (seed {}); {} shards\n"
      "{:<24} {:<10} {:>8} {:>14} {:>18} {:>18} {:>11}\n",
      manifest.tokenizer, manifest.vocab_size, manifest.end_of_document, manifest.held_out,
      manifest.seed, manifest.shards.size(), "source", "language", "weight", "documents", "tokens",
      "text bytes", "bytes/token");
  std::vector<std::string> languages;
  for (const Stream stream : {Stream::train, Stream::validation}) {
    const std::string prefix = std::string(stream_name(stream)) + "/";
    for (size_t i = 0; i < manifest.sources.size(); ++i) {
      const SourceRecord& source = manifest.sources[i];
      text += row(prefix + source.name, source.language, fmt::format("{:g}", source.weight),
                  count_shards(manifest, stream, static_cast<int64_t>(i)));
      languages.push_back(source.language);
    }
    text += row(prefix + "all", "", "", count_shards(manifest, stream));
  }
  std::sort(languages.begin(), languages.end());
  languages.erase(std::unique(languages.begin(), languages.end()), languages.end());
  for (const std::string& language : languages) {
    StoreCounts counts;
    for (const ShardRecord& shard : manifest.shards) {
      if (manifest.sources[static_cast<size_t>(shard.source)].language == language) counts += shard;
    }
    text += row("language", language.empty() ? "(none)" : language, "", counts);
  }
  return text;
}

}  // namespace espalier
