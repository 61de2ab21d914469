// SPDX-License-Identifier: Apache-2.0
// Reading packed sequences.
#include "corpus/feed/packed_samples.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "corpus/feed/packing_file.hpp"

namespace espalier {

PackedSamples::PackedSamples(std::vector<std::unique_ptr<const TokenArray>> parts,
                             const PackingRule& rule, VerifyData verify)
    : seq_length_(rule.seq_length), parts_(std::move(parts)) {
  for (const auto& part : parts_) {
    plans_.push_back(open_packing_plan(*part, rule, verify));
    counts_ += plans_.back()->counts();
    first_.push_back(counts_.sequences);
  }
}

PackedSamples::Place PackedSamples::place_of(int64_t sample) const {
  ESPALIER_REQUIRE(sample >= 0 && sample < samples(), "sample {} of {}", sample, samples());
  const auto after = std::upper_bound(first_.begin(), first_.end(), sample);
  const auto part = static_cast<size_t>(after - first_.begin()) - 1;
  return {part, sample - first_[part]};
}

void PackedSamples::fail_damaged(const Place& place) const {
  throw DataError(fmt::format("{}: is damaged in sequence {}; remove it, and it is made again",
                              packing_path(*parts_[place.part], plans_[place.part]->rule()),
                              place.sequence));
}

// A plan is mapped without a look at all of it, and may be damaged.
PackedSamples::Items PackedSamples::items_of(const Place& place) const {
  const PackingPlan& plan = *plans_[place.part];
  const int64_t first = plan.first()[place.sequence], last = plan.first()[place.sequence + 1];
  if (first < 0 || last < first || last > plan.counts().items) fail_damaged(place);
  return {plan.items() + first, plan.items() + last};
}

void PackedSamples::read(int64_t sample, Sample& out) const {
  const Place place = place_of(sample);
  const TokenArray& array = *parts_[place.part];
  out.tokens.resize(static_cast<size_t>(seq_length_) + 1);
  out.ends.clear();
  out.filled = 0;
  const Items items = items_of(place);
  for (const PackedItem* item = items.begin; item != items.end; ++item) {
    const int64_t reads = int64_t{item->length} + (item->goes_on != 0 ? 1 : 0);
    if (item->length < 1 || out.filled + item->length > seq_length_ ||
        out.filled + reads > seq_length_ + 1 || item->begin < 0 ||
        item->begin > array.tokens() - reads)
      fail_damaged(place);
    array.read(item->begin, reads, &out.tokens[static_cast<size_t>(out.filled)]);
    out.filled += item->length;
    if (item->goes_on == 0) out.ends.push_back(static_cast<int32_t>(out.filled));
  }
  const bool goes_on = out.filled == seq_length_ && out.ends.empty();
  if (!goes_on)
    std::fill(out.tokens.begin() + static_cast<std::ptrdiff_t>(out.filled), out.tokens.end(), -1);
}

int64_t PackedSamples::work(int64_t sample) const {
  const Items items = items_of(place_of(sample));
  int64_t work = 0;
  for (const PackedItem* item = items.begin; item != items.end; ++item)
    work += int64_t{item->length} * item->length;
  return work;
}

}  // namespace espalier
