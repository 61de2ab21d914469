// SPDX-License-Identifier: Apache-2.0
// The wire format of protocol buffers, as far as .model files need it.
#include "corpus/tokenizer/sentencepiece_model.hpp"

#include <string_view>

#include "core/error.hpp"

namespace espalier {
namespace {

using Model = SentencePieceModel;

struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // of varint and fixed fields
  std::string_view bytes;  // of strings and messages
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool next(Field& field) {
    if (bytes_.empty()) return false;
    const uint64_t key = varint();
    field = {static_cast<uint32_t>(key >> 3), 0, {}};
    switch (key & 7) {
      case 0: field.value = varint(); break;
      case 1: field.bytes = take(8); break;
      case 2: field.bytes = take(varint()); break;
      case 5: field.bytes = take(4); break;
      default: fail();
    }
    return true;
  }

 private:
  [[noreturn]] void fail() const {
    throw DataError(where_ + ": is no sentencepiece model, or a damaged one; get it anew");
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size()) fail();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  const std::string& where_;
};

Model::Piece read_piece(std::string_view bytes, const std::string& where) {
  Model::Piece piece;
  Message message(bytes, where);
  for (Field f; message.next(f);) {
    if (f.number == 1) piece.text = f.bytes;
    if (f.number == 3) {
      if (f.value < 1 || f.value > 6) {
        throw DataError(fmt::format("{}: piece {} is of type {}, which this program does not know",
                                    where, piece.text, f.value));
      }
      piece.type = static_cast<Model::PieceType>(f.value);
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& where, Model& model) {
  Message message(bytes, where);
  for (Field f; message.next(f);) {
    if (f.number == 3) {
      if (f.value < 1 || f.value > 4) {
        throw DataError(fmt::format("{}: is a model of kind {}, which this program does not know",
                                    where, f.value));
      }
      model.algorithm = static_cast<Model::Algorithm>(f.value);
    }
    if (f.number == 24) model.blank_as_suffix = f.value != 0;
    if (f.number == 35) model.byte_fallback = f.value != 0;
    if (f.number == 44) model.unknown_surface = f.bytes;
  }
}

void read_normalizer(std::string_view bytes, const std::string& where, Model& model) {
  Message message(bytes, where);
  for (Field f; message.next(f);) {
    if (f.number == 2) model.has_charsmap = !f.bytes.empty();
    if (f.number == 3) model.add_dummy_prefix = f.value != 0;
    if (f.number == 4) model.remove_extra_whitespaces = f.value != 0;
    if (f.number == 5) model.escape_whitespaces = f.value != 0;
  }
}

}  // namespace

SentencePieceModel SentencePieceModel::read(const std::string& bytes, const std::string& where) {
  SentencePieceModel model;
  Message message(bytes, where);
  for (Field f; message.next(f);) {
    if (f.number == 1) model.pieces.push_back(read_piece(f.bytes, where));
    if (f.number == 2) read_trainer(f.bytes, where, model);
    if (f.number == 3) read_normalizer(f.bytes, where, model);
  }
  if (model.pieces.empty()) {
    throw DataError(where + ": holds no pieces; it is no sentencepiece model");
  }
  return model;
}

}  // namespace espalier
