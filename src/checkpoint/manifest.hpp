// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint: the mark that the folder is whole, and everything about who wrote
// it. Its form is documented in docs/checkpoint-format.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace espalier {

struct StateFileEntry {
  std::string name;  // inside the folder of the checkpoint
  int64_t bytes = 0;
};

struct CheckpointManifest {
  int64_t step = 0, consumed_tokens = 0;
  double loss = 0.0;
  bool is_healthy = true;  // the loss was finite and the step was not skipped
  std::vector<StateFileEntry> files;
  std::string state_digest;                           // StateReader::digest() of these files
  std::vector<std::pair<std::string, int64_t>> grid;  // pp, dp, cp, tp and their extents
  int64_t ranks = 1;
  std::vector<std::string> hosts;
  std::string deck;     // effective deck, TOML
  std::string mixture;  // how the sources' mix stands, JSON; empty if nothing is mixed
  std::string build;    // version, compiler, libraries
  std::string saved;    // UTC, ISO 8601
  double save_seconds = 0.0;

  int64_t state_bytes() const;  ///< of all files together
};

/// Most bytes of a manifest that are read.
constexpr int64_t kLargestManifest = int64_t{16} << 20;

/// JSON whose last line is an XXH3_64 of every byte before it.
/// Errors  Internal for a value that parse_manifest would refuse
std::string manifest_json(const CheckpointManifest& manifest);

/// The opposite, trusting nothing: damage that the checksum shows, missing and unknown keys, types,
/// negative or absurd numbers, names that leave the folder, nesting.
/// Errors  DataError with `path` and the key
CheckpointManifest parse_manifest(const std::string& text, const std::string& path);

/// The 16 hexadecimal digits of the last line; empty where there are none.
std::string manifest_checksum(const std::string& text);

}  // namespace espalier
