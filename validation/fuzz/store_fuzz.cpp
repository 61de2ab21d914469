// SPDX-License-Identifier: Apache-2.0
// Any bytes as a manifest, as the index of a shard, as files of nanoGPT, llm.c and Megatron: read
// rightly or refused with DataError, never worse. The first byte chooses; the rest is the file.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/foreign_files.hpp"
#include "corpus/store/shard.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/store/shard_writer.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/tokenizer.hpp"

namespace {

using namespace espalier;

/// A folder that is removed when the program ends in good order.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "store_fuzz_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const uint8_t* data, size_t size) const {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return at(name);
  }

 private:
  std::string path_;
};

void require(bool condition) {
  if (!condition) std::abort();
}

void read_array(const TokenArray& array, int64_t limit) {
  require(array.tokens() > 0);
  std::vector<int32_t> tokens(static_cast<size_t>(std::min<int64_t>(array.tokens(), 1000)));
  const auto count = static_cast<int64_t>(tokens.size());
  array.read(0, count, tokens.data());
  array.read(array.tokens() - count, count, tokens.data());
  for (const int32_t id : tokens) require(id >= 0 && id < limit);
  if (!array.has_index()) return;
  require(array.document_begin(0) == 0);
  for (int64_t i = 0; i <= std::min<int64_t>(array.documents(), 1000); ++i) {
    const int64_t begin = array.document_begin(i);
    require(begin >= 0 && begin <= array.tokens());
  }
  require(array.document_begin(array.documents()) == array.tokens());
}

void fuzz_manifest(const uint8_t* data, size_t size) {
  try {
    const StoreManifest manifest =
        decode_manifest(std::string(reinterpret_cast<const char*>(data), size), "m");
    const std::string text = encode_manifest(manifest);
    require(encode_manifest(decode_manifest(text, "m")) == text);
    for (const ShardRecord& shard : manifest.shards) {
      const auto path = std::filesystem::path("s") / shard.file;
      require(path.lexically_normal() == path && path.string().compare(0, 2, "s/") == 0);
    }
  } catch (const DataError&) {
  }
}

// One good token file, whose index is whatever comes.
const Folder& folder_with_tokens() {
  static const Folder folder;
  static const bool once = [] {
    const ByteTokenizer tokenizer;
    ShardWriter writer(folder.at("a.tok"), tokenizer);
    for (int i = 0; i < 4; ++i) {
      const std::vector<int32_t> tokens =
          tokenizer.encode(std::string(static_cast<size_t>(i), 'x'));
      writer.append(tokens.data(), i);
      writer.end_document(static_cast<uint64_t>(i), i);
    }
    writer.finish();
    writer.publish();
    return true;
  }();
  require(once);
  return folder;
}

// Checksums made right, so that the fields behind them are reached.
void sign_index(std::vector<uint8_t>& bytes, const std::string& token_path) {
  if (bytes.size() < kIndexHeaderBytes) return;
  const uint64_t tie = token_header_checksum(TokenFile(token_path, VerifyData::header).header());
  std::memcpy(bytes.data() + 48, &tie, sizeof tie);
  const uint64_t payload =
      hash_bytes(bytes.data() + kIndexHeaderBytes, bytes.size() - kIndexHeaderBytes);
  std::memcpy(bytes.data() + 56, &payload, sizeof payload);
  const uint64_t header = hash_bytes(bytes.data(), 72);
  std::memcpy(bytes.data() + 72, &header, sizeof header);
}

void fuzz_index(const uint8_t* data, size_t size) {
  const Folder& folder = folder_with_tokens();
  std::vector<uint8_t> bytes(data, data + size);
  for (const bool is_signed : {false, true}) {
    if (is_signed) sign_index(bytes, folder.at("a.tok"));
    folder.write("a.idx", bytes.data(), bytes.size());
    for (const VerifyData verify : {VerifyData::header, VerifyData::full}) {
      try {
        const Shard shard(folder.at("a.tok"), verify);
        require(shard.tokens() == 10);
        read_array(shard, 257);
        if (verify == VerifyData::full) require(shard.document_begin(3) == 6);
      } catch (const DataError&) {
      }
    }
  }
}

void fuzz_foreign(const uint8_t* data, size_t size) {
  static const Folder folder;
  const std::string path = folder.write("f.bin", data, size);
  for (const VerifyData verify : {VerifyData::header, VerifyData::full}) {
    try {
      const ForeignRules rules{60000, 50256, verify};
      const FileKind kind = find_kind(path);
      require(kind != FileKind::unknown);
      if (kind == FileKind::llmc) read_array(*open_llmc(path, rules), 60000);
      if (kind == FileKind::nanogpt) read_array(*open_nanogpt(path, rules), 60000);
    } catch (const DataError&) {
    }
  }
}

// The first byte says how many are the .bin.
void fuzz_megatron(const uint8_t* data, size_t size) {
  if (size == 0) return;
  static const Folder folder;
  const size_t ids = std::min<size_t>(data[0], size - 1);
  folder.write("m.bin", data + 1, ids);
  folder.write("m.idx", data + 1 + ids, size - 1 - ids);
  for (const int32_t end : {-1, 9}) {
    for (const VerifyData verify : {VerifyData::header, VerifyData::full}) {
      try {
        read_array(*open_megatron(folder.at("m"), {60000, end, verify}), 60000);
      } catch (const DataError&) {
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  set_speaking(false);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  switch (data[0] % 4) {
    case 0: fuzz_manifest(data + 1, size - 1); break;
    case 1: fuzz_index(data + 1, size - 1); break;
    case 2: fuzz_foreign(data + 1, size - 1); break;
    default: fuzz_megatron(data + 1, size - 1);
  }
  return 0;
}
