// SPDX-License-Identifier: Apache-2.0
// The documents of the corpus that share one band: which of them are near duplicates.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "corpus/clean/deduplication.hpp"
#include "corpus/clean/min_hash.hpp"

namespace espalier {

/// Takes the documents of one band in their order and compares each by signature with the first
/// kMostCompared of different signatures, so that n documents cost at most 32 n comparisons. Up to
/// that many different ones, the pairs named join exactly what all pairs would join; they are fewer
/// than the documents.
class NearGroup {
 public:
  NearGroup(double similarity, std::vector<DuplicatePair>& pairs)
      : similarity_(similarity), pairs_(pairs) {}

  /// Names the pairs by which `id` joins those before it. `signature` must outlive the group.
  void add(DocumentId id, const uint16_t* signature);

 private:
  struct Member {
    DocumentId id;
    const uint16_t* signature;
    int64_t cluster;  // of members that pairs have joined
  };
  Member& at(int64_t i) { return members_[static_cast<size_t>(i)]; }
  void merge(int64_t kept, int64_t other);

  double similarity_;
  std::vector<DuplicatePair>& pairs_;
  std::array<Member, kMostCompared> members_{};
  int64_t count_ = 0;
};

}  // namespace espalier
