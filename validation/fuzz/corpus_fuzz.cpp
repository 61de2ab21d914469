// SPDX-License-Identifier: Apache-2.0
// Any bytes as a token file and as a text file: read rightly or refused with DataError, never
// worse. The first byte chooses; the rest is the file, which lives in memory (memfd).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "corpus/document_reader.hpp"
#include "corpus/hash.hpp"
#include "corpus/token_file.hpp"
#include "corpus/utf8.hpp"

namespace {

using namespace espalier;

class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : fd_(::memfd_create("fuzz", 0)) {
    if (fd_ < 0 || ::write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  int fd_;
};

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

std::string read_documents(const std::string& path, int64_t document_bytes) {
  DocumentReader reader(path, document_bytes);
  std::string all;
  std::string_view document;
  while (all.size() < (size_t{1} << 22) && reader.next(document)) {
    require(!document.empty());
    require(document_bytes == 0 || document.size() <= static_cast<size_t>(document_bytes));
    require(count_broken_utf8(printable_text(document)) == 0);
    all.append(document);
  }
  return all;
}

void fuzz_text(const uint8_t* data, size_t size, int64_t document_bytes) {
  const MemoryFile file(data, size);
  try {
    const std::string cut = read_documents(file.path(), document_bytes);
    const bool gzip = DocumentReader(file.path(), 0).is_gzip();
    require(gzip == (size >= 2 && data[0] == 0x1f && data[1] == 0x8b));
    if (!gzip) require(cut.size() == size && std::memcmp(cut.data(), data, size) == 0);
  } catch (const DataError&) {
    require(size >= 2 && data[0] == 0x1f);  // plain text of any bytes is readable
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  if (choice % 2 == 0) {
    fuzz_token_file(data + 1, size - 1);
  } else {
    fuzz_text(data + 1, size - 1, choice < 128 ? 64 : 1000);
  }
  return 0;
}
