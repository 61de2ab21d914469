// SPDX-License-Identifier: Apache-2.0
// From the paths of a deck to sources of tokens that agree with each other and with the model.
#include <filesystem>
#include <limits>
#include <map>

#include "core/error.hpp"
#include "corpus/store/foreign_files.hpp"
#include "corpus/store/held_out_check.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/store/store_reader.hpp"
#include "corpus/token_file.hpp"

namespace espalier {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPlainFiles = "files";

// Name of a store's folder, whatever way leads there.
std::string store_name(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  return (error ? fs::path(path) : whole).filename().string();
}

class Opener {
 public:
  Opener(Stream stream, const DataConfig& config, int64_t vocab_size)
      : stream_(stream), config_(config), vocab_size_(vocab_size) {}

  void open(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      open_store(path);
    } else {
      auto array = open_file(path);
      take_in(*array);
      plain_files().parts.push_back(std::move(array));
    }
  }

  OpenTokens finish() {
    name_apart();
    if (foreign_ && end_known_by_file_ && config_.end_of_document >= 0 &&
        config_.end_of_document != tokens_.end_of_document) {
      throw DeckError(fmt::format(
          "data.end_of_document = {}, but {} ends its documents with {}; files that are used "
          "together must have one end of document",
          config_.end_of_document, first_->path(), tokens_.end_of_document));
    }
    if (foreign_ && !end_known_by_file_) {
      tokens_.end_of_document = static_cast<int32_t>(config_.end_of_document);
    }
    return std::move(tokens_);
  }

 private:
  void open_store(const std::string& path) {
    const StoreManifest manifest = read_manifest(path);
    if (count_shards(manifest, stream_).documents == 0) {
      throw DataError(fmt::format(
          "{}: {}", path,
          stream_ == Stream::train
              ? "has no documents for training; build it with a smaller build.held_out"
              : "has no held-out documents, so it cannot be data.validation; build it with a "
                "build.held_out above 0, or validate on another store"));
    }
    if (tokens_.tokenizer_folder.empty()) tokens_.tokenizer_folder = tokenizer_folder(path);
    for (size_t i = 0; i < manifest.sources.size(); ++i) {
      TokenSource source;
      source.name = manifest.sources[i].name;
      source.language = manifest.sources[i].language;
      source.weight = manifest.sources[i].weight;
      for (const ShardRecord& record : manifest.shards) {
        if (record.stream != stream_ || record.source != static_cast<int64_t>(i)) continue;
        source.parts.push_back(open_store_shard(path, manifest, record, config_.verify));
        take_in(*source.parts.back());
      }
      if (source.parts.empty()) continue;  // nothing of it is in this stream
      stores_.push_back(path);
      tokens_.sources.push_back(std::move(source));
    }
  }

  std::unique_ptr<const TokenArray> open_file(const std::string& path) {
    std::error_code error;
    if (!fs::exists(path, error) && fs::exists(path + ".idx", error)) {
      return open_megatron(path, foreign_rules(path));
    }
    switch (find_kind(path)) {
      case FileKind::token_file: return open_token_file(path);
      case FileKind::nanogpt: return open_nanogpt(path, foreign_rules(path));
      case FileKind::llmc: return open_llmc(path, foreign_rules(path));
      case FileKind::megatron: return open_megatron(path, foreign_rules(path));
      case FileKind::shard_index:
        throw DataError(fmt::format(
            "{}: is the index of a shard; name the .tok beside it, or the store's folder", path));
      case FileKind::llmc_evaluation:
        throw DataError(fmt::format(
            "{}: holds questions for an evaluation by llm.c, not running text; name a file made "
            "for training",
            path));
      case FileKind::unknown: break;
    }
    throw DataError(fmt::format(
        "{}: not a token file (its first bytes are the mark of no format that is known); name a "
        "store, a .tok, a .bin of nanoGPT or llm.c, or an .idx of Megatron, or make a store from "
        "text with espalier corpus build",
        path));
  }

  std::unique_ptr<const TokenArray> open_token_file(const std::string& path) {
    if (stream_ == Stream::train) require_not_held_out(path);
    const std::string index = index_path(path);
    std::error_code error;
    // An index of Megatron's may have the name by chance; whatever else is there must be right.
    if (fs::exists(index, error) && find_kind(index) != FileKind::megatron) {
      return std::make_unique<Shard>(path, config_.verify);
    }
    return std::make_unique<TokenFile>(path, config_.verify);
  }

  ForeignRules foreign_rules(const std::string& path) {
    const int64_t end = config_.end_of_document;
    if (end < 0 && config_.document_mask) {
      throw DeckError(fmt::format(
          "data.end_of_document is not set, but {} does not say which id ends a document "
          "(data.document_mask = true needs it); set data.end_of_document to its id, 50256 with "
          "the GPT-2 tokenizer, or data.document_mask = false",
          path));
    }
    if (end >= (vocab_size_ > 0 ? vocab_size_ : int64_t{std::numeric_limits<int32_t>::max()})) {
      throw DeckError(fmt::format(
          "data.end_of_document = {} is not below model.vocab_size = {}; set one of them right",
          end, vocab_size_));
    }
    foreign_ = true;
    return {vocab_size_, static_cast<int32_t>(end < 0 ? -1 : end), config_.verify};
  }

  // What a file says about itself must be what the others and the model say.
  void take_in(const TokenArray& array) {
    if (array.vocab_size() == 0) return;  // it says nothing
    if (vocab_size_ > 0 && array.vocab_size() > vocab_size_) {
      throw DataError(fmt::format(
          "{}: its tokenizer {} has {} ids, but model.vocab_size = {}; set model.vocab_size to {} "
          "or more",
          array.path(), array.tokenizer(), array.vocab_size(), vocab_size_, array.vocab_size()));
    }
    if (first_ == nullptr) {
      first_ = &array;
      tokens_.tokenizer = array.tokenizer();
      tokens_.vocab_size = array.vocab_size();
      tokens_.end_of_document = array.end_of_document();
      end_known_by_file_ = true;
    }
    require_same_tokenizer(*first_, array);
  }

  TokenSource& plain_files() {
    if (plain_ == kNone) {
      plain_ = tokens_.sources.size();
      tokens_.sources.emplace_back();
      tokens_.sources.back().name = kPlainFiles;
      stores_.emplace_back();
    }
    return tokens_.sources[plain_];
  }

  // Weights go by name: sources of the same name get that of their store before it.
  void name_apart() {
    std::map<std::string, int> uses;
    for (const TokenSource& source : tokens_.sources) ++uses[source.name];
    std::map<std::string, std::string> owners;
    for (size_t i = 0; i < tokens_.sources.size(); ++i) {
      std::string& name = tokens_.sources[i].name;
      if (uses[name] > 1 && i != plain_) name = store_name(stores_[i]) + "/" + name;
      const auto [found, is_new] = owners.emplace(name, stores_[i]);
      if (is_new) continue;
      throw DeckError(fmt::format(
          "data.{}: two sources are named {}, of {} and {}; name a store once (data.weights makes "
          "it count more), and give stores folders of unlike names",
          stream_name(stream_), name, found->second.empty() ? "the files" : found->second,
          stores_[i].empty() ? "the files" : stores_[i]));
    }
  }

  static constexpr size_t kNone = static_cast<size_t>(-1);
  Stream stream_;
  const DataConfig& config_;
  int64_t vocab_size_;
  OpenTokens tokens_;
  std::vector<std::string> stores_;  // [sources]: the store of each; empty: the plain files
  size_t plain_ = kNone;
  const TokenArray* first_ = nullptr;  // the first that says what made it
  bool foreign_ = false, end_known_by_file_ = false;
};

}  // namespace

int64_t TokenSource::tokens() const {
  int64_t sum = 0;
  for (const auto& part : parts) sum += part->tokens();
  return sum;
}

void require_same_tokenizer(const OpenTokens& train, const OpenTokens& validation) {
  const bool both_say = train.vocab_size > 0 && validation.vocab_size > 0;
  const bool both_end = train.end_of_document >= 0 && validation.end_of_document >= 0;
  if ((!both_say ||
       (train.tokenizer == validation.tokenizer && train.vocab_size == validation.vocab_size)) &&
      (!both_end || train.end_of_document == validation.end_of_document)) {
    return;
  }
  const auto words = [](const OpenTokens& tokens) {
    return fmt::format("{} (vocab_size {}, end of document {})",
                       tokens.tokenizer.empty() ? "an unnamed tokenizer" : tokens.tokenizer,
                       tokens.vocab_size, tokens.end_of_document);
  };
  throw DataError(fmt::format(
      "data.train is made by tokenizer {}, but data.validation by {}, beginning with {}; build "
      "both "
      "with the same tokenizer",
      words(train), words(validation), validation.sources.front().parts.front()->path()));
}

OpenTokens open_tokens(const std::vector<std::string>& paths, Stream stream,
                       const DataConfig& config, int64_t vocab_size) {
  if (paths.empty()) {
    throw DeckError(fmt::format(
        "data.{} names no file (data.source = \"files\"); name token stores or token files made by "
        "espalier corpus build",
        stream_name(stream)));
  }
  Opener opener(stream, config, vocab_size);
  for (const std::string& path : paths) opener.open(path);
  return opener.finish();
}

}  // namespace espalier
