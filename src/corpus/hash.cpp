// SPDX-License-Identifier: Apache-2.0
// XXH3 by the xxHash library.
#include "corpus/hash.hpp"

#include <xxhash.h>

#include <new>

namespace espalier {

uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

struct RunningHash::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  XXH3_state_t* xxh;
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {}
RunningHash::~RunningHash() = default;

void RunningHash::update(const void* data, size_t bytes) {
  XXH3_64bits_update(state_->xxh, data, bytes);
}

uint64_t RunningHash::value() const {
  return XXH3_64bits_digest(state_->xxh);
}

}  // namespace espalier
