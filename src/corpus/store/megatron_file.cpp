// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's pair of files: ids in PREFIX.bin, sequences and documents in PREFIX.idx.
//
// Layout of the .idx, little-endian, packed: 9 bytes "MMIDIDX\0\0"; uint64 version 1; uint8 code of
// the id type; uint64 sequences S; uint64 D, documents + 1; int32 [S] tokens of each sequence;
// int64 [S] its place in the .bin, bytes; int64 [D] the first sequence of each document, then S.
// Source    Megatron-LM, megatron/core/datasets/indexed_dataset.py, _IndexWriter
#include <cstring>

#include "core/error.hpp"
#include "corpus/store/foreign_file.hpp"

namespace espalier {
namespace {

constexpr int64_t kHeaderBytes = 34;
constexpr const char* kAgain =
    "copy both files again, or write them again with Megatron's tools/preprocess_data.py";

template <class T>
T load(const MappedFile& file, int64_t at) {
  T value;
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

/// The .idx, mapped. Its constructor believes nothing but what it has checked.
class MegatronIndex {
 public:
  explicit MegatronIndex(const std::string& path) : file_(path) {
    static const std::string kMark("MMIDIDX\0\0", 9);
    if (file_.size() < kHeaderBytes || std::memcmp(file_.data(), kMark.data(), kMark.size()) != 0) {
      fail("not an index of Megatron's present format (no MMIDIDX at its begin)");
    }
    if (load<uint64_t>(file_, 9) != 1) {
      fail(fmt::format("version {} is not known, only 1 is", load<uint64_t>(file_, 9)));
    }
    type_ = id_type(load<uint8_t>(file_, 17));
    const auto sequences = load<uint64_t>(file_, 18), entries = load<uint64_t>(file_, 26);
    const auto size = static_cast<uint64_t>(file_.size());
    if (sequences > size / 12 || entries > size / 8 || sequences == 0 || entries < 2) {
      fail(
          fmt::format("{} sequences and {} entries for documents in {} bytes: it is truncated, "
                      "damaged or empty",
                      sequences, entries, size));
    }
    sequences_ = static_cast<int64_t>(sequences);
    documents_ = static_cast<int64_t>(entries) - 1;
    const int64_t expected = kHeaderBytes + 12 * sequences_ + 8 * (documents_ + 1);
    if (file_.size() == expected + sequences_) {
      fail("it has a mode for each sequence: a multimodal data set, not one of text alone");
    }
    if (file_.size() != expected) {
      fail(fmt::format("{} bytes, but its counts make {}", file_.size(), expected));
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}; {}", file_.path(), what, kAgain));
  }

  IdType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return documents_; }

  int64_t length(int64_t sequence) const {
    const auto tokens = load<int32_t>(file_, kHeaderBytes + 4 * sequence);
    if (tokens < 0) fail(fmt::format("sequence {} has {} tokens", sequence, tokens));
    return tokens;
  }

  /// Place of a sequence in the .bin, in tokens, which must be where the one before it ends.
  int64_t begin(int64_t sequence) const {
    const int64_t at = pointer(sequence), width = id_bytes(type_);
    const int64_t expected =
        sequence == 0 ? 0 : pointer(sequence - 1) + length(sequence - 1) * width;
    if (at != expected || at % width != 0) {
      fail(fmt::format(
          "sequence {} is at byte {} of the .bin, not at {}, where the one before it ends; only "
          "sequences in order and without gaps are read",
          sequence, at, expected));
    }
    return at / width;
  }

  int64_t first_sequence(int64_t document) const {
    const auto at = load<int64_t>(file_, kHeaderBytes + 12 * sequences_ + 8 * document);
    if (at < 0 || at > sequences_) {
      fail(fmt::format("document {} begins with sequence {} of {}", document, at, sequences_));
    }
    return at;
  }

 private:
  IdType id_type(int code) const {
    switch (code) {
      case 1: return IdType::uint8;
      case 2: return IdType::int8;
      case 3: return IdType::int16;
      case 4: return IdType::int32;
      case 5: return IdType::int64;
      case 8: return IdType::uint16;
      case 6:
      case 7: fail("its ids are floating-point numbers (type code 6 or 7), so it is no text");
      default: fail(fmt::format("type code {} is not known", code));
    }
  }

  int64_t pointer(int64_t sequence) const {
    const auto at = load<int64_t>(file_, kHeaderBytes + 4 * sequences_ + 8 * sequence);
    if (at < 0 || at > kMostBytes) fail(fmt::format("sequence {} is at byte {}", sequence, at));
    return at;
  }

  static constexpr int64_t kMostBytes = int64_t{1} << 60;  // sums with it stay in 64 bits
  MappedFile file_;
  IdType type_ = IdType::uint16;
  int64_t sequences_ = 0, documents_ = 0;
};

class MegatronFile final : public ForeignFile {
 public:
  MegatronFile(MegatronIndex index, MappedFile ids, const ForeignRules& rules)
      : ForeignFile(std::move(ids), index.type(), 0, rules), index_(std::move(index)) {
    if (index_.first_sequence(0) != 0 ||
        index_.first_sequence(index_.documents()) != index_.sequences()) {
      index_.fail("its documents do not begin with the first sequence and end with the last");
    }
    const int64_t last = index_.sequences() - 1;
    const int64_t end = index_.begin(last) + index_.length(last);
    if (end != tokens()) {
      index_.fail(
          fmt::format("its sequences end at token {}, but {} has {}", end, path(), tokens()));
    }
    const int64_t all = index_.documents();
    if (rules.verify == VerifyData::full) {
      for (int64_t i = 0; i <= last; ++i) index_.begin(i);
      verify_ids();
      for (int64_t i = 0; i < all; ++i) verify_end(i);
    } else {
      verify_end(0);
      verify_end(all - 1);
    }
  }

  bool has_index() const override { return true; }
  int64_t documents() const override { return index_.documents(); }

  int64_t document_begin(int64_t i) const override {
    ESPALIER_REQUIRE(i >= 0 && i <= documents(), "document {} of {} in {}", i, documents(), path());
    const int64_t first = index_.first_sequence(i);
    const int64_t begin = first == index_.sequences() ? tokens() : index_.begin(first);
    if (begin > tokens()) index_.fail(fmt::format("document {} begins at token {}", i, begin));
    return begin;
  }

 private:
  // Without end tokens a document mask would find no document: written without --append-eod.
  void verify_end(int64_t i) const {
    const int64_t begin = document_begin(i), end = document_begin(i + 1);
    if (end < begin) {
      index_.fail(fmt::format("document {} begins at token {} and ends at {}", i, begin, end));
    }
    if (rules().end_of_document < 0 || end == begin) return;
    int32_t id = 0;
    read(end - 1, 1, &id);
    if (id == rules().end_of_document) return;
    throw DataError(fmt::format(
        "{}: document {} ends with id {}, not with data.end_of_document = {}; write the files "
        "again "
        "with --append-eod, set the id that they have, or set data.end_of_document = -1 and "
        "data.document_mask = false",
        path(), i, id, rules().end_of_document));
  }

  MegatronIndex index_;
};

}  // namespace

std::unique_ptr<const TokenArray> open_megatron(const std::string& path,
                                                const ForeignRules& rules) {
  const std::string prefix = megatron_prefix(path);
  MegatronIndex index(prefix + ".idx");
  MappedFile ids(prefix + ".bin");
  if (ids.size() % id_bytes(index.type()) != 0) {
    throw DataError(fmt::format("{}: {} bytes are no multiple of the {} of one id; {}", ids.path(),
                                ids.size(), id_bytes(index.type()), kAgain));
  }
  return std::make_unique<MegatronFile>(std::move(index), std::move(ids), rules);
}

}  // namespace espalier
