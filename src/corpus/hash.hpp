// SPDX-License-Identifier: Apache-2.0
// XXH3, 64 bits: the one hash of this room (checksums, held-out choice, token hashes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace espalier {

/// XXH3-64 of `bytes` bytes at `data`; the same on every machine.
uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0);

/// The same hash (seed 0) of data that comes in pieces.
class RunningHash {
 public:
  RunningHash();
  ~RunningHash();
  RunningHash(const RunningHash&) = delete;
  RunningHash& operator=(const RunningHash&) = delete;

  void update(const void* data, size_t bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
