// SPDX-License-Identifier: Apache-2.0
// From a .model to a tokenizer: what may be cut, what is lossless, which id ends a document.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdio>

#include "core/error.hpp"
#include "corpus/tokenizer/sentencepiece_tokenizer.hpp"

namespace espalier {
namespace {

using Model = SentencePieceModel;
using PieceType = SentencePieceModel::PieceType;

const std::string kBlank = "\xE2\x96\x81";
// A normalizer_spec (field 3) of add_dummy_prefix (3) = false. Later fields of a message win, and
// messages of one field are merged: so words are encoded without a blank in front of each.
constexpr const char kNoDummyPrefix[] = "\x1A\x02\x18\x00";

std::string with_blanks(const std::string& piece) {
  std::string text;
  for (size_t at = 0; at < piece.size();) {
    if (piece.compare(at, kBlank.size(), kBlank) == 0) {
      text.push_back(' ');
      at += kBlank.size();
    } else {
      text.push_back(piece[at++]);
    }
  }
  return text;
}

bool is_matched(const Model::Piece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::user_defined ||
         piece.type == PieceType::unused;
}

// Does a blank stand behind something else in it?
bool goes_on_behind_blank(const std::string& piece) {
  size_t at = 0;
  while (piece.compare(at, kBlank.size(), kBlank) == 0) at += kBlank.size();
  return piece.find(kBlank, at) != std::string::npos;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(TokenizerDefinition definition,
                                               const std::string& where)
    : definition_(std::move(definition)), name_(definition_.name()) {
  const std::string& bytes = definition_.files.at(0).second;
  const Model model = Model::read(bytes, where);
  const bool plain = !model.has_charsmap && !model.remove_extra_whitespaces &&
                     model.escape_whitespaces && !model.blank_as_suffix;
  const auto any = [&](auto&& wanted) {
    return std::any_of(model.pieces.begin(), model.pieces.end(), wanted);
  };
  words_ =
      plain &&
      (model.algorithm == Model::Algorithm::bpe || model.algorithm == Model::Algorithm::unigram) &&
      any([](const Model::Piece& p) { return is_matched(p) && p.text == kBlank; }) &&
      !any([](const Model::Piece& p) { return is_matched(p) && goes_on_behind_blank(p.text); });
  lines_ = words_ && model.byte_fallback && !any([](const Model::Piece& p) {
             return is_matched(p) && p.text.find('\n') != std::string::npos;
           });
  dummy_prefix_ = model.add_dummy_prefix;
  processor_ = std::make_unique<sentencepiece::SentencePieceProcessor>();
  const auto status =
      processor_->LoadFromSerializedProto(words_ ? bytes + std::string(kNoDummyPrefix, 4) : bytes);
  if (!status.ok()) {
    throw DataError(fmt::format("{}: sentencepiece refuses it: {}", where, status.ToString()));
  }
  if (processor_->GetPieceSize() != static_cast<int>(model.pieces.size())) {
    throw DataError(where + ": holds pieces that sentencepiece does not see; get it anew");
  }
  find_end_of_document(model, where);
  read_pieces(model, where);
  lossless_ = words_ && !dummy_prefix_ && model.byte_fallback &&
              std::find(byte_ids_.begin(), byte_ids_.end(), -1) == byte_ids_.end();
}

void SentencePieceTokenizer::find_end_of_document(const Model& model, const std::string& where) {
  vocab_size_ = static_cast<int64_t>(model.pieces.size());
  const std::string& wanted = definition_.end_of_document;
  if (wanted.empty()) {
    const int own = processor_->eos_id();
    end_of_document_ = own >= 0 ? own : static_cast<int32_t>(vocab_size_++);
    return;
  }
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].text != wanted) continue;
    if (model.pieces[id].type != PieceType::control) {
      throw DataError(
          fmt::format("{}: the piece {} (tokenizer.end_of_document) is no control "
                      "symbol, so text may become it; name another",
                      where, wanted));
    }
    end_of_document_ = static_cast<int32_t>(id);
    return;
  }
  throw DataError(
      fmt::format("{}: has no piece {} (tokenizer.end_of_document); name one of its "
                  "control symbols, or leave the key out",
                  where, wanted));
}

void SentencePieceTokenizer::read_pieces(const Model& model, const std::string& where) {
  byte_ids_.fill(-1);
  texts_.resize(static_cast<size_t>(vocab_size_));
  const bool as_tokens = definition_.special_tokens == SpecialTokens::as_tokens;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Model::Piece& piece = model.pieces[id];
    std::string& text = texts_[id];
    if (piece.type == PieceType::byte) {
      unsigned byte = 256;
      if (piece.text.size() != 6 || std::sscanf(piece.text.c_str(), "<0x%2X>", &byte) != 1 ||
          byte > 255) {
        throw DataError(fmt::format("{}: byte piece {} names no byte", where, piece.text));
      }
      byte_ids_[byte] = static_cast<int32_t>(id);
      text.assign(1, static_cast<char>(byte));
    } else if (piece.type == PieceType::unknown) {
      text = model.unknown_surface;
    } else if (piece.type != PieceType::control) {
      text = with_blanks(piece.text);
    } else if (as_tokens && !piece.text.empty()) {
      AddedToken token;
      token.content = text = piece.text;
      token.id = static_cast<int32_t>(id);
      symbols_.add(piece.text, token, token.id != end_of_document_);
    }
  }
}

}  // namespace espalier
