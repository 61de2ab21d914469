// SPDX-License-Identifier: Apache-2.0
// What a sentencepiece .model says: the fields that decide how text is treated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

/// Source    sentencepiece_model.proto of sentencepiece 0.1.97, field numbers in the reader
struct SentencePieceModel {
  enum class PieceType {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  enum class Algorithm { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string text;
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool blank_as_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  bool has_charsmap = false;  // normalisation beyond blanks
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;

  /// Errors    DataError, begun with `where`, for bytes that are no such message
  static SentencePieceModel read(const std::string& bytes, const std::string& where);
};

}  // namespace espalier
