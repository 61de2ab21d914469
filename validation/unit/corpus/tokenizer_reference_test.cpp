// SPDX-License-Identifier: Apache-2.0
// Ids of the tokenizers library on hard texts, for three kinds of tokenizer.json and changes of
// them: see validation/references/tokenizers/make_references.py.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::read_bytes;
using testing::TempFolder;

std::string reference(const std::string& name) {
  const std::string bytes = read_bytes(std::string(ESPALIER_REFERENCES) + "/" + name);
  EXPECT_FALSE(bytes.empty()) << name << " is missing";
  return bytes;
}

nlohmann::json reference_json(const std::string& name) {
  return nlohmann::json::parse(reference(name));
}

std::unique_ptr<Tokenizer> load(const TempFolder& folder, const std::string& json,
                                SpecialTokens special = SpecialTokens::as_text) {
  TokenizerConfig config;
  config.kind = TokenizerKind::huggingface;
  config.path = folder.write("tokenizer.json", json);
  config.special_tokens = special;
  return make_tokenizer(config);
}

// Ids of every text.
int64_t expect_ids(const Tokenizer& tokenizer, const nlohmann::json& texts,
                   const nlohmann::json& ids, const std::string& what) {
  EXPECT_EQ(texts.size(), ids.size());
  int64_t compared = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>()), ids[i].get<std::vector<int32_t>>())
        << what << ", text " << texts[i];
    ++compared;
  }
  return compared;
}

class TokenizerReference : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerReference, GivesTheSameIds) {
  const TempFolder folder;
  const std::string name = GetParam();
  const nlohmann::json texts = reference_json("texts.json"),
                       ids = reference_json(name + ".ids.json");
  const std::string json = reference(name + ".json");
  const auto as_text = load(folder, json);
  const auto as_tokens = load(folder, json, SpecialTokens::as_tokens);
  EXPECT_NE(as_text->name(), as_tokens->name());
  EXPECT_EQ(expect_ids(*as_text, texts, ids["as_text"], name), 30);
  EXPECT_EQ(expect_ids(*as_tokens, texts, ids["as_tokens"], name + " as tokens"), 30);
  EXPECT_NE(ids["as_text"], ids["as_tokens"]);
}

TEST_P(TokenizerReference, GivesTheSameIdsWhenChanged) {
  const TempFolder folder;
  const std::string name = GetParam();
  const nlohmann::json texts = reference_json("texts.json");
  const nlohmann::json base = reference_json(name + ".json");
  const std::string list = std::string(ESPALIER_REFERENCES) + "/" + name + ".variants-";
  int64_t compared = 0, variants = 0;
  for (int part = 0; std::filesystem::exists(list + std::to_string(part) + ".json"); ++part) {
    for (const auto& variant :
         nlohmann::json::parse(read_bytes(list + std::to_string(part) + ".json"))) {
      nlohmann::json json = base;
      for (const auto& item : variant["patch"].items()) {
        if (item.key() == "model") {
          json["model"].update(item.value());
        } else {
          json[item.key()] = item.value();
        }
      }
      const auto tokenizer = load(folder, json.dump());
      compared += expect_ids(*tokenizer, texts, variant["ids"], variant["patch"].dump());
      ++variants;
    }
  }
  if (name != "llama3") {
    EXPECT_GE(variants, 7);
    EXPECT_GE(compared, variants * 20);
  }
}

TEST_P(TokenizerReference, ComesBackFromAFolder) {
  const TempFolder folder;
  const auto tokenizer = load(folder, reference(GetParam() + std::string(".json")));
  save_tokenizer(*tokenizer, folder.at("kept"));
  const std::string settings = read_bytes(folder.at("kept/settings.json"));
  const auto again = open_tokenizer(folder.at("kept"), tokenizer->name());
  EXPECT_EQ(again->name(), tokenizer->name());
  EXPECT_LE(again->name().size(), 47u);
  EXPECT_EQ(again->encode("Hello, world! 123"), tokenizer->encode("Hello, world! 123"));
  save_tokenizer(*again, folder.at("kept"));
  EXPECT_EQ(read_bytes(folder.at("kept/settings.json")), settings);
  EXPECT_CONTAINS(data_error([&] { open_tokenizer(folder.at("kept"), "gpt2:0"); }), "is asked for");
  std::string json = read_bytes(folder.at("kept/tokenizer.json"));
  json[json.size() / 2] = static_cast<char>(json[json.size() / 2] ^ 1);
  folder.write("kept/tokenizer.json", json);
  EXPECT_CONTAINS(data_error([&] { open_tokenizer(folder.at("kept"), ""); }), "has changed");
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerReference, ::testing::Values("gpt2", "llama3", "llama2"));

TEST(TokenizerFile, TextsComeBack) {
  const TempFolder folder;
  const auto bytes = load(folder, reference("gpt2.json"));
  const auto characters = load(folder, reference("llama2.json"));
  EXPECT_TRUE(bytes->is_lossless());
  EXPECT_FALSE(characters->is_lossless());
  for (const auto& value : reference_json("texts.json")) {
    const std::string text = value.get<std::string>();
    EXPECT_EQ(bytes->decode(bytes->encode(text)), text);
    if (text.find("\xE2\x96\x81") == std::string::npos &&
        text.find("<0x41>") == std::string::npos) {
      EXPECT_EQ(characters->decode(characters->encode(text)), text);
    }
  }
}

TEST(TokenizerFile, BrokenTextGoesThroughByteForByte) {
  const TempFolder folder;
  const auto tokenizer = load(folder, reference("gpt2.json"));
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 80; ++i) {
      const uint64_t bits = random_bits(seed, 1, i);
      text.push_back(static_cast<char>(bits % 3 == 0 ? (bits >> 8) % 256 : 32 + (bits >> 8) % 64));
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

// Pieces of any size, one after another, have the tokens of the text.
TEST(TokenizerFile, PiecesHaveTheTokensOfTheText) {
  const TempFolder folder;
  std::string text;
  for (const auto& value : reference_json("texts.json")) text += value.get<std::string>() + "\n";
  text += std::string("broken \xE6\x97 \x80 and \xFF\xFE ") + text;
  for (const char* name : {"gpt2.json", "llama3.json", "llama2.json"}) {
    for (const SpecialTokens special : {SpecialTokens::as_text, SpecialTokens::as_tokens}) {
      const auto tokenizer = load(folder, reference(name), special);
      const std::vector<int32_t> whole = tokenizer->encode(text);
      for (const size_t most : {1, 7, 50, 333, 5000}) {
        std::vector<int32_t> pieces;
        for (std::string_view rest = text; !rest.empty();) {
          const size_t end = tokenizer->piece_end(rest, most);
          ASSERT_GT(end, 0u);
          ASSERT_LE(end, rest.size());
          tokenizer->append_tokens(rest.substr(0, end), pieces);
          rest.remove_prefix(end);
        }
        EXPECT_EQ(pieces, whole) << name << " " << most;
      }
    }
  }
  const auto tokenizer = load(folder, reference("gpt2.json"));
  EXPECT_LE(tokenizer->piece_end(text, 500), 500u) << "long texts are cut at all";
}

TEST(TokenizerFile, EndOfDocumentIsNeverTextsToken) {
  const TempFolder folder;
  const std::string json = reference("gpt2.json"), end = "<|endoftext|>";
  for (const SpecialTokens special : {SpecialTokens::as_text, SpecialTokens::as_tokens}) {
    const auto tokenizer = load(folder, json, special);
    EXPECT_EQ(tokenizer->end_of_document(), 0);
    const std::vector<int32_t> tokens = tokenizer->encode("a " + end + end + "b");
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 0), 0);
    EXPECT_EQ(tokenizer->decode(tokens), "a " + end + end + "b");
  }
  TokenizerConfig config;
  config.kind = TokenizerKind::huggingface;
  config.path = folder.write("tokenizer.json", json);
  config.end_of_document = "<|begin|>";
  EXPECT_EQ(make_tokenizer(config)->decode({make_tokenizer(config)->end_of_document()}), "");
  config.end_of_document = "<|none|>";
  EXPECT_CONTAINS(data_error([&] { make_tokenizer(config); }), "has no token <|none|>");
  config.end_of_document = "a";
  EXPECT_CONTAINS(data_error([&] { make_tokenizer(config); }), "is one that text becomes");
  nlohmann::json without = nlohmann::json::parse(json);
  without["added_tokens"] = nlohmann::json::array();
  without["model"]["vocab"].erase(end);
  without["model"]["vocab"]["<|start|>"] = 0;
  const auto tokenizer = load(folder, without.dump());
  EXPECT_EQ(tokenizer->end_of_document(), tokenizer->vocab_size() - 1);
  EXPECT_EQ(tokenizer->vocab_size(), 621);
  EXPECT_CONTAINS(data_error([&] { tokenizer->decode({621}); }), "token id 621 at place 0");
}

// Whatever is not understood is refused by its name.
TEST(TokenizerFile, RefusesWhatItDoesNotKnow) {
  const TempFolder folder;
  const nlohmann::json base = reference_json("gpt2.json");
  const struct {
    const char *pointer, *value, *words;
  } cases[] = {
      {"/model/type", R"("WordPiece")", "WordPiece"},
      {"/model/dropout", "0.1", "dropout"},
      {"/model/new_key", "1", "new_key"},
      {"/normalizer", R"({"type":"Precompiled","precompiled_charsmap":""})", "Precompiled"},
      {"/normalizer", R"({"type":"NFC","mode":1})", "mode"},
      {"/pre_tokenizer", R"({"type":"BertPreTokenizer"})", "BertPreTokenizer"},
      {"/pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"\\h+"},"behavior":"Isolated"})",
       "\\h"},
      {"/pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated"})",
       "(a"},
      {"/pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"a"},"behavior":"Between"})",
       "Between"},
      {"/decoder", R"({"type":"WordPiece","prefix":"##"})", "WordPiece"},
      {"/decoder", R"({"type":"Fuse"})", "make it ByteLevel"},
      {"/added_tokens/0/id", "7", "has id 7"},
      {"/added_tokens/0/shape", "7", "shape"},
      {"/model/merges/0", R"(["Q","Qx"])", "is not in vocab"},
      {"/model/merges/0", R"("a b c")", "not two words"},
      {"/model/vocab/a", "2147483647", "id that is none"},
      {"/model/vocab/a", "2000000", "the file is damaged"},
      {"/model/vocab/a", "5", "to two tokens"},
      {"/version", R"("2.0")", "2.0"},
      {"/extra", "{}", "extra"},
  };
  for (const auto& c : cases) {
    nlohmann::json json = base;
    json[nlohmann::json::json_pointer(c.pointer)] = nlohmann::json::parse(c.value);
    const std::string words = data_error([&] { load(folder, json.dump()); });
    EXPECT_CONTAINS(words, c.words);
    EXPECT_CONTAINS(words, "tokenizer.json");
  }
  EXPECT_CONTAINS(data_error([&] { load(folder, "{\"model\":"); }), "is not valid JSON");
  EXPECT_CONTAINS(data_error([&] { load(folder, "[]"); }), "is no object");
}

}  // namespace
}  // namespace espalier
