// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: the model, the added tokens, and all together.
#include <algorithm>
#include <unordered_map>

#include "core/error.hpp"
#include "corpus/tokenizer/bpe_files.hpp"
#include "corpus/tokenizer/json_reader.hpp"

namespace espalier {
namespace {

void read_vocab(const JsonObject& model, BpeTable& table) {
  const JsonObject vocab = model.object("vocab");
  const nlohmann::json& value = model.at("vocab");
  table.vocab.reserve(value.size());
  for (const auto& item : value.items()) {
    if (!item.value().is_number_unsigned() || item.value().get<uint64_t>() > 0x7FFFFFF0) {
      vocab.fail(fmt::format("gives {} an id that is none", item.key().substr(0, 80)));
    }
    table.vocab.emplace_back(item.key(), item.value().get<int32_t>());
  }
}

void read_merges(const JsonObject& model, BpeTable& table) {
  const nlohmann::json& merges = model.array("merges");
  table.merges.reserve(merges.size());
  for (const nlohmann::json& merge : merges) {
    if (merge.is_string()) {
      const std::string words = merge.get<std::string>();
      if (words.compare(0, 8, "#version") == 0) continue;
      const size_t blank = words.find(' ');
      if (blank != std::string::npos && words.find(' ', blank + 1) == std::string::npos) {
        table.merges.emplace_back(words.substr(0, blank), words.substr(blank + 1));
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      table.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    model.fail(
        fmt::format("has a merge that is not two words, number {}", table.merges.size() + 1));
  }
}

void read_model(const JsonObject& model, BpeTable& table) {
  const std::string type = model.text("type", "BPE");
  if (type != "BPE") model.fail(fmt::format("is of type {}; this program reads BPE", type));
  model.allow_only({"type", "dropout", "unk_token", "continuing_subword_prefix",
                    "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                    "merges"});
  if (model.has("dropout") && model.at("dropout") != 0.0) {
    model.fail("has dropout, with which ids are not certain; set it to null");
  }
  table.unknown = model.text("unk_token", "");
  table.continuing_prefix = model.text("continuing_subword_prefix", "");
  table.end_suffix = model.text("end_of_word_suffix", "");
  table.fuse_unknown = model.flag("fuse_unk", false);
  table.byte_fallback = model.flag("byte_fallback", false);
  table.ignore_merges = model.flag("ignore_merges", false);
  read_vocab(model, table);
  read_merges(model, table);
}

AddedToken read_added_token(const JsonObject& token) {
  token.allow_only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken out;
  const int64_t id = token.count("id");
  if (id > 0x7FFFFFF0) token.fail("has an id that is out of range");
  out.id = static_cast<int32_t>(id);
  out.content = token.text("content");
  if (out.content.empty()) token.fail("has an empty content");
  out.single_word = token.flag("single_word", false);
  out.lstrip = token.flag("lstrip", false);
  out.rstrip = token.flag("rstrip", false);
  out.special = token.flag("special", false);
  out.normalized = token.flag("normalized", !out.special);
  return out;
}

// The reference numbers tokens that are not in vocab itself; a file whose ids say otherwise would
// come out differently there.
void read_added(const nlohmann::json& list, const std::string& where, BpeDescription& description) {
  const auto& vocab = description.table.vocab;
  const std::unordered_map<std::string, int32_t> ids(vocab.begin(), vocab.end());
  std::unordered_map<std::string, int32_t> seen;
  const auto size = static_cast<int64_t>(vocab.size());
  int64_t next = size;
  for (const nlohmann::json& value : list) {
    const AddedToken token =
        read_added_token({value, fmt::format("{}[{}]", where, description.added.size())});
    const auto found = ids.find(token.content);
    const int64_t id = found != ids.end() ? found->second : next;
    if (!seen.emplace(token.content, token.id).second) {
      throw DataError(fmt::format("{}: {} stands there twice", where, token.content));
    }
    if (id != token.id) {
      throw DataError(
          fmt::format("{}: {} has id {}, but id {} by its place after the vocabulary; "
                      "number the tokens anew",
                      where, token.content, token.id, id));
    }
    if (found == ids.end()) ++next;
    description.added.push_back(token);
  }
}

void require_bytes(const BpeDescription& description) {
  const BpeTable& table = description.table;
  const bool bytes = table.symbols == Symbols::bytes;
  if (bytes &&
      (table.byte_fallback || !table.continuing_prefix.empty() || !table.end_suffix.empty())) {
    throw DataError(description.where +
                    ": byte_fallback, continuing_subword_prefix and end_of_word_suffix are not "
                    "read together with ByteLevel");
  }
  if (bytes && !description.decode.byte_alphabet) {
    throw DataError(description.where +
                    ": pre_tokenizer is ByteLevel but decoder is not; make it ByteLevel");
  }
}

}  // namespace

BpeDescription describe_tokenizer_json(const std::string& text, const std::string& where) {
  const nlohmann::json json = parse_json(text, where);
  const JsonObject file(json, where + ":");
  file.allow_only({"version", "truncation", "padding", "added_tokens", "normalizer",
                   "pre_tokenizer", "post_processor", "decoder", "model"});
  if (file.text("version", "1.0") != "1.0") {
    file.fail(fmt::format("has version {}; this program reads 1.0", file.text("version")));
  }
  BpeDescription description;
  description.where = where;
  description.table.symbols = Symbols::characters;
  read_model({file.at("model"), where + ": model"}, description.table);
  if (file.has("normalizer")) {
    description.normalizer = read_normalizer(file.at("normalizer"), where + ": normalizer");
  }
  if (file.has("pre_tokenizer")) {
    description.pre_tokenizer = read_pre_tokenizer(
        file.at("pre_tokenizer"), where + ": pre_tokenizer", description.table.symbols);
  }
  if (file.has("added_tokens")) {
    read_added(file.array("added_tokens"), where + ": added_tokens", description);
  }
  if (file.has("decoder")) {
    description.decode = read_decoder(file.at("decoder"), where + ": decoder");
  } else {
    description.decode.byte_alphabet = description.table.symbols == Symbols::bytes;
  }
  require_bytes(description);
  return description;
}

}  // namespace espalier
