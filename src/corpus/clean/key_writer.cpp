// SPDX-License-Identifier: Apache-2.0
// Writes a piece's key file aside, block by block with checksums, then renames it.
#include <xxhash.h>

#include <algorithm>
#include <tuple>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/clean/deduplication.hpp"
#include "corpus/clean/key_file.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/aside_file.hpp"

namespace espalier {

struct KeyWriter::State {
  AsideFile file;
  KeyHeader header;
  MinHash min_hash;
  BandChoice choice;
  std::vector<uint64_t> keys;
  std::vector<ExactRecord> exact;
  std::vector<NearRecord> near_records;
  std::vector<unsigned char> block;  // what is not written yet, below kKeyBlockBytes
  std::vector<uint64_t> checksums;
  bool is_finished = false;

  State(const CleanConfig& config, const std::string& path)
      : file(path),
        header(key_header_of(config)),
        min_hash(header.is_near() ? header.shingle : 1),
        choice{header.bands, header.rows} {
    ESPALIER_REQUIRE(config.deduplicate != Deduplication::none, "keys for no deduplication");
    block.reserve(static_cast<size_t>(kKeyBlockBytes));
  }

  void flush_block() {
    if (block.empty()) return;
    file.write(block.data(), block.size(),
               static_cast<int64_t>(kKeyHeaderBytes + checksums.size() * kKeyBlockBytes));
    checksums.push_back(hash_bytes(block.data(), block.size()));
    block.clear();
  }

  void append(const void* data, size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    while (bytes > 0) {
      const size_t room = static_cast<size_t>(kKeyBlockBytes) - block.size();
      const size_t taken = std::min(room, bytes);
      block.insert(block.end(), from, from + taken);
      from += taken;
      bytes -= taken;
      if (taken == room) flush_block();
    }
  }
};

KeyWriter::KeyWriter(const CleanConfig& config, std::string path)
    : state_(std::make_unique<State>(config, path)) {}

KeyWriter::~KeyWriter() = default;

void KeyWriter::add(std::string_view document) {
  State& s = *state_;
  const XXH128_hash_t hash = XXH3_128bits(document.data(), document.size());
  const auto index = static_cast<uint64_t>(s.header.documents++);
  s.exact.push_back({hash.high64, hash.low64, index});
  if (!s.header.is_near()) return;
  Signature signature;
  const bool is_signed = s.min_hash.sign(document, signature);
  s.append(signature.data(), sizeof(signature));
  if (!is_signed) return;  // too short to be near to anything
  band_keys(signature, s.choice, s.keys);
  for (const uint64_t key : s.keys) s.near_records.push_back({key, index});
}

void KeyWriter::finish() {
  State& s = *state_;
  ESPALIER_REQUIRE(!s.is_finished, "{} is finished already", s.file.path());
  s.is_finished = true;
  std::sort(s.exact.begin(), s.exact.end(), [](const ExactRecord& a, const ExactRecord& b) {
    return std::tie(a.high, a.low, a.index) < std::tie(b.high, b.low, b.index);
  });
  std::sort(s.near_records.begin(), s.near_records.end(),
            [](const NearRecord& a, const NearRecord& b) {
              return std::tie(a.key, a.index) < std::tie(b.key, b.index);
            });
  s.header.near_records = static_cast<int64_t>(s.near_records.size());
  require_file_size_allowed(s.file.aside(), s.header.file_bytes());
  s.append(s.exact.data(), s.exact.size() * sizeof(ExactRecord));
  s.append(s.near_records.data(), s.near_records.size() * sizeof(NearRecord));
  s.flush_block();
  const size_t list_bytes = s.checksums.size() * sizeof(uint64_t);
  s.file.write(s.checksums.data(), list_bytes, s.header.checksums_at());
  s.header.block_checksum = hash_bytes(s.checksums.data(), list_bytes);
  const KeyHeaderBytes bytes = encode_key_header(s.header);
  s.file.write(bytes.data(), bytes.size(), 0);
  s.file.finish();
  s.file.publish();
}

}  // namespace espalier
