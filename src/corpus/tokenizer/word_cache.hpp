// SPDX-License-Identifier: Apache-2.0
// Words whose tokens were worked out before: a table of fixed size for each thread.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "corpus/hash.hpp"

namespace espalier {

/// One table a thread, 4 MiB, shared by all tokenizers: a word has one slot, and the last comer
/// keeps it. Longer words, and words of more tokens, are not kept.
class WordCache {
 public:
  static constexpr size_t kMostBytes = 58, kMostTokens = 16;

  /// A number that no other owner of words has in this process.
  static uint32_t new_owner();

  static WordCache& of_this_thread();

  struct Slot {
    uint32_t owner = 0;
    uint8_t bytes = 0, count = 0;
    std::array<char, kMostBytes> word;
    std::array<int32_t, kMostTokens> tokens;

    bool holds(uint32_t wanted, std::string_view text) const {
      return owner == wanted && bytes == text.size() &&
             std::memcmp(word.data(), text.data(), text.size()) == 0;
    }
    /// Keeps the tokens from `first` on, if they fit.
    void keep(uint32_t new_owner, std::string_view text, const std::vector<int32_t>& all,
              size_t first) {
      const size_t number = all.size() - first;
      if (number > kMostTokens) return;
      owner = new_owner;
      bytes = static_cast<uint8_t>(text.size());
      count = static_cast<uint8_t>(number);
      std::memcpy(word.data(), text.data(), text.size());
      std::memcpy(tokens.data(), all.data() + first, number * sizeof(int32_t));
    }
  };

  /// The slot of a word of at most kMostBytes bytes.
  Slot& slot(std::string_view word) {
    return slots_[hash_bytes(word.data(), word.size()) % kSlots];
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 15;
  static_assert(sizeof(Slot) == 128, "two lines of cache a slot");
  WordCache() : slots_(std::make_unique<Slot[]>(kSlots)) {}
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace espalier
