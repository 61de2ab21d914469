// SPDX-License-Identifier: Apache-2.0
// Sequences made of whole documents, as the packing plans of a source's arrays say.
#pragma once

#include <vector>

#include "corpus/feed/packing.hpp"
#include "corpus/feed/sample_set.hpp"

namespace espalier {

/// The sequences of all arrays, one array behind another.
/// Errors    DataError for an array without an index
class PackedSamples : public SampleSet {
 public:
  PackedSamples(std::vector<std::unique_ptr<const TokenArray>> parts, const PackingRule& rule,
                VerifyData verify);
  int64_t samples() const override { return first_.back(); }
  void read(int64_t sample, Sample& out) const override;
  int64_t work(int64_t sample) const override;
  const PackingCounts& counts() const { return counts_; }

 private:
  struct Place {
    size_t part;
    int64_t sequence;
  };
  struct Items {
    const PackedItem *begin, *end;
  };
  Place place_of(int64_t sample) const;
  Items items_of(const Place& place) const;
  [[noreturn]] void fail_damaged(const Place& place) const;

  int64_t seq_length_;
  std::vector<std::unique_ptr<const TokenArray>> parts_;
  std::vector<std::unique_ptr<const PackingPlan>> plans_;
  std::vector<int64_t> first_{0};  // first sample of each part, and their number
  PackingCounts counts_;
};

}  // namespace espalier
