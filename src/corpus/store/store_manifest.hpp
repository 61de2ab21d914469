// SPDX-License-Identifier: Apache-2.0
// manifest.json of a token store: what is in it, with checksums. Its presence marks it whole.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "corpus/store/token_array.hpp"

namespace espalier {

struct ShardRecord {
  std::string file;  // "train/NAME-00000.tok" in the store's folder; its index ends in .idx
  int64_t source = 0;
  Stream stream = Stream::train;
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  uint64_t checksum = 0;        // XXH3-64 of the whole token file
  uint64_t index_checksum = 0;  // of the whole index file
};

struct SourceRecord {
  std::string name, language;
  double weight = 1.0;
};

struct StoreManifest {
  std::string tokenizer;  // name in the token files
  int64_t vocab_size = 0;
  int64_t end_of_document = 0;
  double held_out = 0.0;
  uint64_t seed = 0;
  std::vector<SourceRecord> sources;
  std::vector<ShardRecord> shards;  // by source, then place; train before validation of a piece
  nlohmann::json details;  // of the build: files, faults, cleaning, duplicates, deck; for people
};

constexpr int64_t kStoreFormatVersion = 1;
constexpr const char* kManifestName = "manifest.json";

/// The same bytes for the same store, whatever wrote it. Counts by source, language and stream are
/// written too, and checked against the shards when read. Text in `details` that is no UTF-8 is
/// written with U+FFFD.
/// Errors    Internal for a manifest that decode_manifest would refuse
std::string encode_manifest(const StoreManifest& manifest);

/// Errors    DataError naming `path` for broken JSON, a newer format, missing, unknown or odd
///           fields, names that lead out of the store, counts that are not the sums of the shards
StoreManifest decode_manifest(const std::string& text, const std::string& path);

/// decode_manifest of STORE/manifest.json.
/// Errors    DataError; for a folder without one it says that the store is not whole
StoreManifest read_manifest(const std::string& store);

/// Compares the checksum that encode_manifest puts last in STORE/manifest.json with what stands
/// before it, byte for byte. Readers do not ask for it: a weight may be changed by hand.
/// Errors    DataError if the file differs in any byte from what was written
void verify_manifest(const std::string& store);

/// Documents, tokens (end-of-document tokens are counted) and bytes of text.
struct StoreCounts {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  StoreCounts& operator+=(const ShardRecord& record);
};

/// Sums over the shards of a stream, of one source or of all (-1).
StoreCounts count_shards(const StoreManifest& manifest, Stream stream, int64_t source = -1);

std::string manifest_path(const std::string& store);     ///< STORE/manifest.json
std::string tokenizer_folder(const std::string& store);  ///< STORE/tokenizer
const char* stream_name(Stream stream);  ///< "train" or "validation"; folders have these names

}  // namespace espalier
