// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tokenizer.json, as a sentencepiece model, and as a text for a sound tokenizer:
// read rightly or refused with DataError; what is lossless loses nothing; ids stay in range; pieces
// have the tokens of the whole. The first byte chooses.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "corpus/tokenizer/bpe_files.hpp"
#include "corpus/tokenizer/byte_alphabet.hpp"
#include "corpus/tokenizer/sentencepiece_model.hpp"

namespace {

using namespace espalier;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  for (const int32_t id : tokens) {
    require(id >= 0 && id < tokenizer.vocab_size() && id != tokenizer.end_of_document());
  }
  if (tokenizer.is_lossless()) require(tokenizer.decode(tokens) == text);
  std::vector<int32_t> pieces;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = tokenizer.piece_end(rest, 20);
    require(end > 0 && end <= rest.size());
    tokenizer.append_tokens(rest.substr(0, end), pieces);
    rest.remove_prefix(end);
  }
  require(pieces == tokens);
}

TokenizerDefinition definition(SpecialTokens special) {
  TokenizerDefinition made;
  made.kind = TokenizerKind::huggingface;
  made.special_tokens = special;
  return made;
}

void fuzz_json(const std::string& json, SpecialTokens special) {
  try {
    const BpeTokenizer tokenizer(describe_tokenizer_json(json, "fuzz"), definition(special));
    for (const char* text : {"", "a", "Hello  world 123!\n\n x",
                             "\xE2\x96\x81 \xC3\xA9\xF0\x9F\x91\xA8\xE2\x80\x8D", "ab\xFF"}) {
      check(tokenizer, text);
    }
    check(tokenizer, json.substr(0, 2000));
  } catch (const DataError&) {
  }
}

// Bytes, a few merges, and one added token of each sort.
std::unique_ptr<Tokenizer> sound_tokenizer(Scanner scanner) {
  BpeDescription made;
  made.where = "sound";
  const auto add = [&](const std::string& word) {
    made.table.vocab.emplace_back(word, static_cast<int32_t>(made.table.vocab.size()));
  };
  for (int c = 0; c < 256; ++c) add(to_byte_alphabet(std::string(1, static_cast<char>(c))));
  const std::string blank = to_byte_alphabet(" ");
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"a", "a"}, {"aa", "a"}, {"a", "b"}, {blank, "a"}, {blank, blank}, {"ab", "ab"}}) {
    made.table.merges.emplace_back(left, right);
    add(left + right);
  }
  int32_t id = static_cast<int32_t>(made.table.vocab.size());
  for (const char* content : {"<a>", "a<", "  <"}) {
    AddedToken token;
    token.content = content;
    token.id = id++;
    made.added.push_back(token);
  }
  PreTokenizerStep step;
  step.kind = PreTokenizerStep::Kind::scan;
  step.scanner = scanner;
  made.pre_tokenizer.push_back(step);
  made.decode.byte_alphabet = true;
  return std::make_unique<BpeTokenizer>(std::move(made), definition(SpecialTokens::as_tokens));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const auto gpt2 = sound_tokenizer(Scanner::gpt2),
                    llama3 = sound_tokenizer(Scanner::llama3);
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      fuzz_json(rest, data[0] < 128 ? SpecialTokens::as_text : SpecialTokens::as_tokens);
      break;
    case 1:
      require(gpt2->is_lossless());
      check(*gpt2, rest);
      break;
    case 2: check(*llama3, rest); break;
    default: try { SentencePieceModel::read(rest, "fuzz");
      } catch (const DataError&) {
      }
  }
  return 0;
}
