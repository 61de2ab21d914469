// SPDX-License-Identifier: Apache-2.0
// sentencepiece models: trained here, loaded, kept and opened, against the library itself.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/tokenizer/train_sentencepiece.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::TempFolder;

const char* const kSyllables[] = {"ba",        "ne",          "ko", "ri", "\xD0\xBC\xD0\xB8",
                                  "\xC3\xA9t", "\xE6\x97\xA5"};

// Documents of made-up words; like every sample, the same each time.
std::string document(uint64_t number) {
  std::string text;
  for (uint64_t i = 0; i < 60; ++i) {
    const uint64_t bits = random_bits(number, 5, i);
    for (uint64_t k = 0; k <= bits % 3; ++k) text += kSyllables[(bits >> (8 + 4 * k)) % 7];
    text += i % 12 == 11 ? "\n  " : i % 7 == 3 ? ", " : " ";
  }
  return text;
}

std::string train(SubwordModel model, int64_t vocab_size, uint64_t documents = 200) {
  TrainTokenizerConfig config;
  config.model = model;
  config.vocab_size = vocab_size;
  uint64_t number = 0;
  return train_sentencepiece(config, [&](std::string& text) {
    text = document(number);
    return number++ < documents;
  });
}

TokenizerConfig config_of(const TempFolder& folder, const std::string& model) {
  TokenizerConfig config;
  config.kind = TokenizerKind::sentencepiece;
  config.path = folder.write("some.model", model);
  return config;
}

std::vector<std::string> hard_texts() {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  return {"",
          " ",
          "\n\n \n",
          "bane  kori\n\tne   ",
          " ba",
          "ba ",
          document(7),
          all,
          std::string("nul\0byte", 8),
          "\xE2\x96\x81"
          "ba\xE2\x96\x81\xE2\x96\x81 ne",
          "\xE6\x97\x80\xF0\x9F\x8C broken \xFF",
          "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xEF\xBF\xBD",
          "<s> </s> <unk> <0x41> \xE2\x96\x85 \xE2\x81\x87",
          "\r\n\xC2\xA0\xE3\x80\x80 x",
          std::string(3000, ' ') + "x",
          std::string(100000, 'b')};
}

TEST(SentencePiece, TrainedModelsLoseNothing) {
  const TempFolder folder;
  for (const SubwordModel kind : {SubwordModel::bpe, SubwordModel::unigram}) {
    const std::string model = train(kind, 340);
    EXPECT_EQ(model, train(kind, 340)) << "the same bytes again";
    const auto tokenizer = make_tokenizer(config_of(folder, model));
    EXPECT_TRUE(tokenizer->is_lossless());
    EXPECT_EQ(tokenizer->vocab_size(), 340);
    EXPECT_EQ(tokenizer->end_of_document(), 2);  // </s>
    for (const std::string& text : hard_texts()) {
      const std::vector<int32_t> tokens = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(tokens), text);
      for (const int32_t id : tokens) EXPECT_GT(id, 2) << "a control symbol or the unknown one";
    }
    EXPECT_LT(tokenizer->encode(document(3)).size(), document(3).size() / 3);
  }
}

// Word by word from the cache is what the library makes of the whole.
TEST(SentencePiece, WordsAreThoseOfTheLibrary) {
  const TempFolder folder;
  for (const SubwordModel kind : {SubwordModel::bpe, SubwordModel::unigram}) {
    const std::string model = train(kind, 360);
    const auto tokenizer = make_tokenizer(config_of(folder, model));
    sentencepiece::SentencePieceProcessor library;
    ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());
    for (uint64_t number = 0; number < 60; ++number) {
      const std::string text = document(number) + "x\xF0\x9F\x8C\xB3  " + document(number + 1);
      EXPECT_EQ(tokenizer->encode(text), library.EncodeAsIds(text));
    }
  }
}

TEST(SentencePiece, PiecesHaveTheTokensOfTheText) {
  const TempFolder folder;
  const auto tokenizer = make_tokenizer(config_of(folder, train(SubwordModel::bpe, 340)));
  std::string text;
  for (const std::string& part : hard_texts()) text += part + " ";
  const std::vector<int32_t> whole = tokenizer->encode(text);
  for (const size_t most : {1, 10, 100, 4000}) {
    std::vector<int32_t> pieces;
    for (std::string_view rest = text; !rest.empty();) {
      const size_t end = tokenizer->piece_end(rest, most);
      ASSERT_GT(end, 0u);
      tokenizer->append_tokens(rest.substr(0, end), pieces);
      rest.remove_prefix(end);
    }
    EXPECT_EQ(pieces, whole) << most;
  }
  EXPECT_LE(tokenizer->piece_end(document(1), 100), 100u);
}

TEST(SentencePiece, KeepsItsFilesAndSettings) {
  const TempFolder folder;
  const std::string model = train(SubwordModel::unigram, 340);
  TokenizerConfig config = config_of(folder, model);
  const std::string plain = make_tokenizer(config)->name();
  config.end_of_document = "<s>";
  config.special_tokens = SpecialTokens::as_tokens;
  const auto tokenizer = make_tokenizer(config);
  EXPECT_NE(tokenizer->name(), plain);
  EXPECT_EQ(tokenizer->end_of_document(), 1);
  const std::string text = "ba</s><s> ne";
  const std::vector<int32_t> tokens = tokenizer->encode(text);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 2), 1);  // </s>
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1), 0);  // the end of a document
  EXPECT_EQ(tokenizer->decode(tokens), text);
  save_tokenizer(*tokenizer, folder.at("kept"));
  const auto again = open_tokenizer(folder.at("kept"), tokenizer->name());
  EXPECT_EQ(again->encode(text), tokens);
  EXPECT_EQ(testing::read_bytes(folder.at("kept/tokenizer.model")), model);
  config.end_of_document = "ba";
  EXPECT_CONTAINS(data_error([&] { make_tokenizer(config); }), "ba (tokenizer.end_of_document)");
}

TEST(SentencePiece, RefusesDamagedModels) {
  const TempFolder folder;
  const std::string model = train(SubwordModel::bpe, 340);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, model.size() - 1}) {
    const std::string words =
        data_error([&] { make_tokenizer(config_of(folder, model.substr(0, size))); });
    EXPECT_CONTAINS(words, "some.model");
  }
  EXPECT_CONTAINS(data_error([&] { make_tokenizer(config_of(folder, "plain text\n")); }),
                  "no sentencepiece model");
}

TEST(SentencePiece, SaysWhichVocabularyFits) {
  const std::string words = data_error([] { train(SubwordModel::bpe, 5000, 2); });
  EXPECT_CONTAINS(words, "too large for this sample");
  const size_t at = words.find("; ") + 2;
  const int64_t largest = std::stoll(words.substr(at));
  EXPECT_FALSE(train(SubwordModel::bpe, largest, 2).empty());
  EXPECT_CONTAINS(data_error([&] { train(SubwordModel::bpe, largest + 1, 2); }), "too large");
  EXPECT_CONTAINS(data_error([] { train(SubwordModel::unigram, 5000, 2); }), "largest possible");
  EXPECT_CONTAINS(data_error([] { train(SubwordModel::bpe, 340, 0); }), "holds no text");
  EXPECT_CONTAINS(data_error([] { train(SubwordModel::bpe, 20, 1); }), "outside 300");
}

}  // namespace
}  // namespace espalier
