// SPDX-License-Identifier: Apache-2.0
// Owners and threads of the word cache.
#include "corpus/tokenizer/word_cache.hpp"

#include <atomic>

namespace espalier {

uint32_t WordCache::new_owner() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

WordCache& WordCache::of_this_thread() {
  thread_local WordCache cache;
  return cache;
}

}  // namespace espalier
