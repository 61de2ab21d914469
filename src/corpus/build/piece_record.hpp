// SPDX-License-Identifier: Apache-2.0
// What came of one piece: kept as a file, so that a build that was killed goes on behind it, and
// added up to the counts of the store.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "corpus/clean/cleaner.hpp"
#include "corpus/source/input_faults.hpp"
#include "corpus/store/store_manifest.hpp"

namespace espalier {

struct PieceRecord {
  int64_t documents_read = 0, bytes_read = 0;  // of text, before cleaning
  int64_t documents_kept = 0;                  // of both streams, duplicates among them
  InputFaults faults;
  CleanCounts cleaning;
  std::vector<ShardRecord> shards;  // train, validation; those with documents

  explicit PieceRecord(int64_t examples) : faults(examples) {}
};

/// Documents that went as duplicates, and their text.
struct DuplicateCount {
  int64_t exact = 0, near = 0, bytes = 0;
  void add(const DuplicateCount& other);
  nlohmann::json to_json() const;
};

/// What is left of a piece without its duplicates.
struct FinalRecord {
  std::vector<ShardRecord> shards;
  DuplicateCount dropped;
};

// Written whole or not at all. Reading throws a DataError for what these did not write.
void write_record(const std::string& path, const PieceRecord& record);
PieceRecord read_piece_record(const std::string& path, int64_t examples);
void write_record(const std::string& path, const FinalRecord& record);
FinalRecord read_final_record(const std::string& path);

}  // namespace espalier
