// SPDX-License-Identifier: Apache-2.0
// Best-fit packing: whole documents placed into sequences, so that as few as can be are cut.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "corpus/store/token_array.hpp"

namespace espalier {

/// Bin of each item, numbered in the order in which bins are opened: the longest items first, each
/// into the fullest bin that has room for it; ties by index.
/// Units     lengths in tokens, 1 .. capacity; capacity >= 1
/// Cost      O(items * log_64(capacity)) time, O(items + capacity) memory
/// Errors    Internal for a length outside
/// Source    Ding et al. 2024, "Fewer truncations improve language modeling", arXiv:2404.10830,
///           section 3 (Best-fit packing)
std::vector<int32_t> place_best_fit(const std::vector<int32_t>& lengths, int64_t capacity);

struct PackingRule {
  int64_t seq_length = 0;
  LongDocuments long_documents = LongDocuments::split;
};

/// A run of tokens of one document. The layout is that of the plan's file.
struct PackedItem {
  int64_t begin = 0;    // first token in the array
  int32_t length = 0;   // tokens
  int32_t goes_on = 0;  // 1: the document has tokens behind; then the item fills its sequence
};

struct PackingCounts {
  int64_t sequences = 0;
  int64_t items = 0;
  int64_t tokens = 0;   // in the items
  int64_t padding = 0;  // tokens; sequences * seq_length = tokens + padding
  int64_t documents = 0;
  int64_t split_documents = 0;    // in more than one item
  int64_t dropped_documents = 0;  // longer than a sequence
  int64_t dropped_tokens = 0;
  double padding_share() const;  ///< of all places in the sequences; 0 without sequences
};
PackingCounts& operator+=(PackingCounts& sum, const PackingCounts& more);

/// Items in the order of the sequences; sequence i holds items [first[i], first[i + 1]).
class PackingPlan {
 public:
  virtual ~PackingPlan() = default;
  const PackingRule& rule() const { return rule_; }
  const PackingCounts& counts() const { return counts_; }
  const int64_t* first() const { return first_; }     ///< [sequences + 1]
  const PackedItem* items() const { return items_; }  ///< [items]

 protected:
  PackingRule rule_;
  PackingCounts counts_;
  const PackedItem* items_ = nullptr;
  const int64_t* first_ = nullptr;
};

/// Packs the documents of an array by its index, their end-of-document tokens with them. A document
/// longer than seq_length fills sequences of its own but for its rest, or is dropped. Documents are
/// packed in groups of some million, so that memory beside the plan is bounded.
/// Memory    16 bytes an item and 8 a sequence
/// Errors    Internal without an index
std::unique_ptr<const PackingPlan> pack_documents(const TokenArray& array, const PackingRule& rule);

}  // namespace espalier
