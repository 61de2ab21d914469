// SPDX-License-Identifier: Apache-2.0
// Any bytes as a token file: read rightly or refused with DataError, never worse. The file lives in
// memory (memfd).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/token_file.hpp"
#include "memory_file.hpp"

namespace {

using namespace espalier;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_token_file(const std::string& path, VerifyData verify) {
  try {
    const TokenFile file(path, verify);
    std::vector<int32_t> tokens(static_cast<size_t>(std::min<int64_t>(file.tokens(), 1000)));
    const auto count = static_cast<int64_t>(tokens.size());
    file.read(0, count, tokens.data());
    file.read(file.tokens() - count, count, tokens.data());
    for (const int32_t id : tokens) require(id >= 0 && id < file.header().vocab_size);
    for (int64_t i = 0; i < 3; ++i) {
      const DocumentRange range = find_document(file, i);
      require(0 <= range.begin && range.begin <= range.end && range.end < file.tokens());
    }
  } catch (const DataError&) {
  }
}

// Both checksums made right, so that the fields behind them are reached.
void sign(std::vector<uint8_t>& bytes) {
  if (bytes.size() < kTokenHeaderBytes) return;
  const uint64_t payload =
      hash_bytes(bytes.data() + kTokenHeaderBytes, bytes.size() - kTokenHeaderBytes);
  std::memcpy(bytes.data() + 104, &payload, sizeof payload);
  const uint64_t header = hash_bytes(bytes.data(), 120);
  std::memcpy(bytes.data() + 120, &header, sizeof header);
}

void fuzz_token_file(const uint8_t* data, size_t size) {
  read_token_file(MemoryFile(data, size).path(), VerifyData::full);
  std::vector<uint8_t> bytes(data, data + size);
  sign(bytes);
  const MemoryFile file(bytes.data(), bytes.size());
  read_token_file(file.path(), VerifyData::full);
  read_token_file(file.path(), VerifyData::header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  fuzz_token_file(data, size);
  return 0;
}
