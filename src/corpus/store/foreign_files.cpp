// SPDX-License-Identifier: Apache-2.0
// Recognising files of other programs; nanoGPT's and llm.c's, which have no index.
#include "corpus/store/foreign_files.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/store/foreign_file.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/token_header.hpp"

namespace espalier {
namespace {

constexpr int64_t kLlmcHeaderBytes = 256 * 4;
constexpr uint32_t kLlmcGpt2 = 20240520, kLlmcLlama3 = 20240801, kLlmcEvaluation = 20240522;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

template <size_t N>
bool starts_with(const std::string& bytes, const std::array<unsigned char, N>& mark) {
  return bytes.size() >= N && std::memcmp(bytes.data(), mark.data(), N) == 0;
}

std::string first_bytes(const std::string& path) {
  std::string bytes(16, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return bytes;
}

int32_t header_field(const MappedFile& file, int64_t number) {
  int32_t value;
  std::memcpy(&value, file.data() + 4 * number, sizeof value);
  return value;
}

}  // namespace

FileKind find_kind(const std::string& path) {
  constexpr const char* kMegatronMark = "MMIDIDX";  // two zero bytes follow
  { const MappedFile readable(path); }              // for its errors
  const std::string bytes = first_bytes(path);
  const auto is_megatron = [&](const std::string& start) {
    return start.compare(0, 9, std::string(kMegatronMark) + std::string(2, '\0')) == 0;
  };
  if (starts_with(bytes, kTokenMagic)) return FileKind::token_file;
  if (starts_with(bytes, kIndexMagic)) return FileKind::shard_index;
  if (is_megatron(bytes)) return FileKind::megatron;
  if (!ends_with(path, ".bin")) return FileKind::unknown;
  if (is_megatron(first_bytes(megatron_prefix(path) + ".idx"))) return FileKind::megatron;
  uint32_t mark = 0;
  if (bytes.size() >= sizeof mark) std::memcpy(&mark, bytes.data(), sizeof mark);
  if (mark == kLlmcGpt2 || mark == kLlmcLlama3) return FileKind::llmc;
  if (mark == kLlmcEvaluation) return FileKind::llmc_evaluation;
  return FileKind::nanogpt;
}

std::string megatron_prefix(const std::string& path) {
  const bool file = ends_with(path, ".idx") || ends_with(path, ".bin");
  return file ? path.substr(0, path.size() - 4) : path;
}

ForeignFile::ForeignFile(MappedFile file, IdType type, int64_t offset, const ForeignRules& rules)
    : file_(std::move(file)),
      type_(type),
      offset_(offset),
      tokens_((file_.size() - offset) / id_bytes(type)),
      rules_(rules) {
  ESPALIER_REQUIRE(
      offset >= 0 && offset < file_.size() && offset + tokens_ * id_bytes(type) == file_.size(),
      "{} has {} bytes, {} of them a header", path(), file_.size(), offset);
}

void ForeignFile::read(int64_t begin, int64_t count, int32_t* out) const {
  ESPALIER_REQUIRE(begin >= 0 && count >= 0 && begin <= tokens() - count,
                   "tokens [{}, {} + {}) of {}, which has {}", begin, begin, count, path(),
                   tokens());
  const int64_t limit =
      rules_.vocab_size > 0 ? rules_.vocab_size : std::numeric_limits<int32_t>::max();
  const unsigned char* from = file_.data() + offset_ + begin * id_bytes(type_);
  const int64_t bad = copy_ids(type_, from, count, limit, out);
  if (bad < 0) return;
  throw DataError(fmt::format(
      "{}: token {} has id {}, but ids must be in [0, {}){}: it was made with another tokenizer, "
      "is damaged, or is no file of tokens; set model.vocab_size, or copy the file again",
      path(), begin + bad, id_at(type_, from, bad), limit,
      rules_.vocab_size > 0 ? ", model.vocab_size" : ""));
}

int64_t ForeignFile::document_begin(int64_t i) const {
  ESPALIER_REQUIRE(i == 0, "{} has no index of documents", path());
  return 0;
}

void ForeignFile::verify_ids() const {
  std::vector<int32_t> block(65536);
  int64_t ends = 0;
  for (int64_t at = 0; at < tokens();) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(block.size()), tokens() - at);
    read(at, count, block.data());
    ends += std::count(block.begin(), block.begin() + count, end_of_document());
    at += count;
  }
  if (end_of_document() >= 0 && ends == 0) {
    warn("{}: holds no token {} (data.end_of_document): all of it is taken for one document",
         path(), end_of_document());
  }
}

std::unique_ptr<const TokenArray> open_nanogpt(const std::string& path, const ForeignRules& rules) {
  MappedFile file(path);
  if (file.size() % 2 != 0) {
    throw DataError(fmt::format(
        "{}: has {} bytes and no mark of a format that is known; a nanoGPT file has 2 bytes for "
        "each token: copy it again, or give the file its right name",
        path, file.size()));
  }
  auto array = std::make_unique<ForeignFile>(std::move(file), IdType::uint16, 0, rules);
  if (rules.verify == VerifyData::full) array->verify_ids();
  return array;
}

std::unique_ptr<const TokenArray> open_llmc(const std::string& path, const ForeignRules& rules) {
  MappedFile file(path);
  if (file.size() <= kLlmcHeaderBytes) {
    throw DataError(
        fmt::format("{}: {} bytes are no more than the header of an llm.c file; copy it again",
                    path, file.size()));
  }
  const bool gpt2 = static_cast<uint32_t>(header_field(file, 0)) == kLlmcGpt2;
  const int32_t version = header_field(file, 1), known = gpt2 ? 1 : 7;
  if (version != known) {
    throw DataError(fmt::format(
        "{}: version {} of the llm.c format with mark {} is not known (only {} is); write it again "
        "with llm.c's dev/data, or build a store from the text",
        path, version, header_field(file, 0), known));
  }
  const IdType type = gpt2 ? IdType::uint16 : IdType::uint32;
  const int64_t tokens = header_field(file, 2);
  const int64_t expected = kLlmcHeaderBytes + tokens * id_bytes(type);
  if (tokens < 1 || file.size() != expected) {
    throw DataError(fmt::format(
        "{}: {} bytes, but its header counts {} tokens of {} bytes, which makes {}; copy it again",
        path, file.size(), tokens, id_bytes(type), expected));
  }
  auto array = std::make_unique<ForeignFile>(std::move(file), type, kLlmcHeaderBytes, rules);
  if (rules.verify == VerifyData::full) array->verify_ids();
  return array;
}

}  // namespace espalier
