// SPDX-License-Identifier: Apache-2.0
// Making, keeping and opening tokenizers.
#include "corpus/tokenizer/tokenizer_files.hpp"

#include <filesystem>
#include <system_error>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/tokenizer/bpe_files.hpp"
#include "corpus/tokenizer/json_reader.hpp"
#include "corpus/tokenizer/sentencepiece_tokenizer.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostFileBytes = int64_t{1} << 28;
constexpr const char* kSettings = "settings.json";
constexpr const char* kModel = "tokenizer.model";
constexpr const char* kJson = "tokenizer.json";
constexpr const char* kVocab = "vocab.json";
constexpr const char* kMerges = "merges.txt";

struct KindName {
  TokenizerKind kind;
  const char* name;
  std::vector<const char*> files;
};

const KindName kKinds[] = {{TokenizerKind::bytes, "bytes", {}},
                           {TokenizerKind::sentencepiece, "sentencepiece", {kModel}},
                           {TokenizerKind::gpt2, "gpt2", {kVocab, kMerges}},
                           {TokenizerKind::huggingface, "huggingface", {kJson}}};

const KindName& kind_of(TokenizerKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::string join(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

std::unique_ptr<Tokenizer> from_definition(TokenizerDefinition definition,
                                           const std::string& where) {
  switch (definition.kind) {
    case TokenizerKind::bytes: return std::make_unique<ByteTokenizer>();
    case TokenizerKind::sentencepiece:
      return std::make_unique<SentencePieceTokenizer>(std::move(definition), where);
    case TokenizerKind::gpt2: {
      BpeDescription description =
          describe_gpt2(definition.files.at(0).second, definition.files.at(1).second, where);
      return std::make_unique<BpeTokenizer>(std::move(description), std::move(definition));
    }
    case TokenizerKind::huggingface: {
      BpeDescription description = describe_tokenizer_json(definition.files.at(0).second, where);
      return std::make_unique<BpeTokenizer>(std::move(description), std::move(definition));
    }
  }
  ESPALIER_REQUIRE(false, "tokenizer kind {}", static_cast<int>(definition.kind));
  return nullptr;
}

// The first of the names that is there.
std::string find_file(const std::string& folder, const char* name, const char* other) {
  for (const char* candidate : {name, other}) {
    const std::string path = join(folder, candidate);
    std::error_code code;
    if (std::filesystem::exists(path, code)) return path;
  }
  throw DataError(
      fmt::format("{}: this folder has neither {} nor {}; name the folder of a GPT-2 "
                  "tokenizer in tokenizer.path",
                  folder, name, other));
}

std::string in_folder(const std::string& path, const char* name) {
  std::error_code code;
  return std::filesystem::is_directory(path, code) ? join(path, name) : path;
}

void require_bytes_alone(const TokenizerConfig& config) {
  if (!config.path.empty() || !config.end_of_document.empty() ||
      config.special_tokens != SpecialTokens::as_text) {
    throw DeckError(
        "tokenizer.kind = bytes has no files and no special tokens; leave out tokenizer.path, "
        "end_of_document and special_tokens");
  }
}

SpecialTokens read_special(const JsonObject& settings) {
  const std::string word = settings.text("special_tokens");
  if (word == "as_text") return SpecialTokens::as_text;
  if (word == "as_tokens") return SpecialTokens::as_tokens;
  settings.fail(fmt::format("has special_tokens {}, which this program does not know", word));
}

TokenizerKind read_kind(const JsonObject& settings) {
  const std::string word = settings.text("kind");
  for (const KindName& kind : kKinds) {
    if (word == kind.name) return kind.kind;
  }
  settings.fail(fmt::format("has kind {}, which this program does not know", word));
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config) {
  if (config.kind == TokenizerKind::bytes) {
    require_bytes_alone(config);
    return std::make_unique<ByteTokenizer>();
  }
  if (config.path.empty()) {
    throw DeckError(fmt::format("tokenizer.kind = {} needs tokenizer.path: the file or folder",
                                kind_of(config.kind).name));
  }
  std::vector<std::string> paths;
  if (config.kind == TokenizerKind::gpt2) {
    paths = {find_file(config.path, kVocab, "encoder.json"),
             find_file(config.path, kMerges, "vocab.bpe")};
  } else {
    paths = {in_folder(config.path, kind_of(config.kind).files[0])};
  }
  TokenizerDefinition definition;
  definition.kind = config.kind;
  definition.end_of_document = config.end_of_document;
  definition.special_tokens = config.special_tokens;
  for (size_t i = 0; i < paths.size(); ++i) {
    definition.files.emplace_back(kind_of(config.kind).files[i],
                                  read_text_file(paths[i], kMostFileBytes));
  }
  return from_definition(std::move(definition),
                         config.kind == TokenizerKind::gpt2 ? config.path : paths[0]);
}

void save_tokenizer(const Tokenizer& tokenizer, const std::string& folder) {
  const TokenizerDefinition definition = tokenizer.definition();
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) fail_file(folder, "make this folder", code.value());
  nlohmann::ordered_json settings;
  settings["format"] = 1;
  settings["name"] = tokenizer.name();
  settings["kind"] = kind_of(definition.kind).name;
  settings["end_of_document"] = definition.end_of_document;
  settings["special_tokens"] =
      definition.special_tokens == SpecialTokens::as_text ? "as_text" : "as_tokens";
  settings["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, bytes] : definition.files) {
    write_text_file(join(folder, name), bytes);
    settings["files"].push_back(
        {{"name", name},
         {"bytes", bytes.size()},
         {"xxh3", fmt::format("{:016x}", hash_bytes(bytes.data(), bytes.size()))}});
  }
  write_text_file(join(folder, kSettings), settings.dump(2) + "\n");
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& folder, const std::string& name) {
  const std::string path = join(folder, kSettings);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw DataError(
        fmt::format("{}: is missing, and without it ids are no text; copy the store (or run) "
                    "again, or build it "
                    "again",
                    path));
  const nlohmann::json json = parse_json(read_text_file(path, 1 << 20), path);
  const JsonObject settings(json, path + ":");
  settings.allow_only({"format", "name", "kind", "end_of_document", "special_tokens", "files"});
  if (settings.count("format") != 1) settings.fail("is of a format that this program cannot read");
  TokenizerDefinition definition;
  definition.kind = read_kind(settings);
  definition.end_of_document = settings.text("end_of_document");
  definition.special_tokens = read_special(settings);
  const auto& names = kind_of(definition.kind).files;
  const nlohmann::json& files = settings.array("files");
  if (files.size() != names.size())
    settings.fail("lists another number of files than its kind has");
  for (size_t i = 0; i < names.size(); ++i) {
    const JsonObject file(files[i], fmt::format("{}: files[{}]", path, i));
    if (file.text("name") != names[i]) file.fail(fmt::format("is not {}", names[i]));
    const std::string place = join(folder, names[i]);
    std::string bytes = read_text_file(place, kMostFileBytes);
    if (fmt::format("{:016x}", hash_bytes(bytes.data(), bytes.size())) != file.text("xxh3")) {
      throw DataError(
          fmt::format("{}: has changed since it was written (its checksum is not that "
                      "of {}); restore the folder",
                      place, kSettings));
    }
    definition.files.emplace_back(names[i], std::move(bytes));
  }
  auto tokenizer = from_definition(std::move(definition), folder);
  if (!name.empty() && tokenizer->name() != name) {
    throw DataError(fmt::format("{}: holds tokenizer {}, but {} is asked for; restore the folder",
                                folder, tokenizer->name(), name));
  }
  if (tokenizer->name() != settings.text("name")) {
    settings.fail(
        fmt::format("names {}, but its files make {}", settings.text("name"), tokenizer->name()));
  }
  return tokenizer;
}

}  // namespace espalier
