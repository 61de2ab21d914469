// SPDX-License-Identifier: Apache-2.0
// Best-fit-decreasing by counting sort and a set of the spaces that are left.
#include "corpus/feed/packing.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr size_t kGroup = size_t{1} << 22;  // pieces packed at once: about 100 MB of memory

// A set of numbers below a bound that finds the smallest member from a number on: words of bits,
// and above each level one bit a word that says whether it is empty.
class NumberSet {
 public:
  explicit NumberSet(int64_t bound) {
    auto size = static_cast<size_t>(bound);
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }

  void insert(int64_t number) {
    auto n = static_cast<size_t>(number);
    for (auto& level : levels_) {
      level[n / 64] |= uint64_t{1} << (n % 64);
      n /= 64;
    }
  }

  void erase(int64_t number) {
    auto n = static_cast<size_t>(number);
    for (auto& level : levels_) {
      level[n / 64] &= ~(uint64_t{1} << (n % 64));
      if (level[n / 64] != 0) return;
      n /= 64;
    }
  }

  int64_t at_least(int64_t number) const {  // -1: none
    auto n = static_cast<size_t>(number);
    for (size_t up = 0; up < levels_.size(); ++up) {
      if (n / 64 >= levels_[up].size()) return -1;
      const uint64_t rest = levels_[up][n / 64] & (~uint64_t{0} << (n % 64));
      if (rest != 0) {
        n = n / 64 * 64 + static_cast<size_t>(__builtin_ctzll(rest));
        while (up-- > 0) n = n * 64 + static_cast<size_t>(__builtin_ctzll(levels_[up][n]));
        return static_cast<int64_t>(n);
      }
      n = n / 64 + 1;
    }
    return -1;
  }

 private:
  std::vector<std::vector<uint64_t>> levels_;  // the bits themselves first
};

// Indices, longest first, equal ones in order.
std::vector<int32_t> by_falling_length(const std::vector<int32_t>& lengths, int64_t capacity) {
  std::vector<int64_t> place(static_cast<size_t>(capacity) + 1, 0);
  for (const int32_t length : lengths) {
    ESPALIER_REQUIRE(length >= 1 && length <= capacity, "a length of {}, capacity {}", length,
                     capacity);
    ++place[static_cast<size_t>(capacity - length)];
  }
  int64_t sum = 0;
  for (int64_t& count : place) {
    sum += count;
    count = sum - count;
  }
  std::vector<int32_t> order(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i)
    order[static_cast<size_t>(place[static_cast<size_t>(capacity - lengths[i])]++)] =
        static_cast<int32_t>(i);
  return order;
}

class MadePlan : public PackingPlan {
 public:
  explicit MadePlan(const PackingRule& rule) { rule_ = rule; }

  void add_alone(int64_t begin, int32_t length, int32_t goes_on) {
    all_items_.push_back({begin, length, goes_on});
    all_first_.push_back(static_cast<int64_t>(all_items_.size()));
  }
  void add_group(std::vector<int64_t>& begins, std::vector<int32_t>& lengths);
  void finish() {
    items_ = all_items_.data();
    first_ = all_first_.data();
    counts_.items = static_cast<int64_t>(all_items_.size());
    counts_.sequences = static_cast<int64_t>(all_first_.size()) - 1;
    for (const PackedItem& item : all_items_) counts_.tokens += item.length;
    counts_.padding = counts_.sequences * rule_.seq_length - counts_.tokens;
  }
  PackingCounts& counts() { return counts_; }

 private:
  std::vector<PackedItem> all_items_;
  std::vector<int64_t> all_first_{0};
};

void MadePlan::add_group(std::vector<int64_t>& begins, std::vector<int32_t>& lengths) {
  const std::vector<int32_t> bins = place_best_fit(lengths, rule_.seq_length);
  const int32_t count = bins.empty() ? 0 : *std::max_element(bins.begin(), bins.end()) + 1;
  std::vector<int64_t> place(static_cast<size_t>(count), 0);
  for (const int32_t bin : bins) ++place[static_cast<size_t>(bin)];
  auto next = static_cast<int64_t>(all_items_.size());
  for (int64_t& items : place) {
    next += items;
    all_first_.push_back(next);
    items = next - items;
  }
  all_items_.resize(static_cast<size_t>(next));
  for (size_t i = 0; i < bins.size(); ++i)  // by their place in the array, to be read in that order
    all_items_[static_cast<size_t>(place[static_cast<size_t>(bins[i])]++)] = {begins[i], lengths[i],
                                                                              0};
  begins.clear();
  lengths.clear();
}

}  // namespace

std::vector<int32_t> place_best_fit(const std::vector<int32_t>& lengths, int64_t capacity) {
  ESPALIER_REQUIRE(capacity >= 1 && lengths.size() < size_t{1} << 31, "{} items, capacity {}",
                   lengths.size(), capacity);
  NumberSet spaces(capacity + 1);  // which amounts of space some bin has left
  // Bins of each amount of space: a chain through `below`, the newest on top.
  std::vector<int32_t> top(static_cast<size_t>(capacity) + 1, -1), below, bins(lengths.size());
  for (const int32_t i : by_falling_length(lengths, capacity)) {
    const int32_t length = lengths[static_cast<size_t>(i)];
    int64_t space = spaces.at_least(length);
    int32_t bin;
    if (space < 0) {
      space = capacity;
      bin = static_cast<int32_t>(below.size());
      below.push_back(-1);
    } else {
      int32_t& chain = top[static_cast<size_t>(space)];
      bin = chain;
      chain = below[static_cast<size_t>(bin)];
      if (chain < 0) spaces.erase(space);
    }
    bins[static_cast<size_t>(i)] = bin;
    const int64_t left = space - length;
    if (left == 0) continue;
    int32_t& chain = top[static_cast<size_t>(left)];
    if (chain < 0) spaces.insert(left);
    below[static_cast<size_t>(bin)] = chain;
    chain = bin;
  }
  return bins;
}

double PackingCounts::padding_share() const {
  const int64_t places = tokens + padding;
  return places == 0 ? 0.0 : static_cast<double>(padding) / static_cast<double>(places);
}

PackingCounts& operator+=(PackingCounts& sum, const PackingCounts& more) {
  for (auto member :
       {&PackingCounts::sequences, &PackingCounts::items, &PackingCounts::tokens,
        &PackingCounts::padding, &PackingCounts::documents, &PackingCounts::split_documents,
        &PackingCounts::dropped_documents, &PackingCounts::dropped_tokens})
    sum.*member += more.*member;
  return sum;
}

std::unique_ptr<const PackingPlan> pack_documents(const TokenArray& array,
                                                  const PackingRule& rule) {
  ESPALIER_REQUIRE(array.has_index() && rule.seq_length >= 1 && rule.seq_length < INT32_MAX,
                   "{}, sequences of {}", array.path(), rule.seq_length);
  auto plan = std::make_unique<MadePlan>(rule);
  PackingCounts& counts = plan->counts();
  counts.documents = array.documents();
  std::vector<int64_t> begins;
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < array.documents(); ++i) {
    int64_t begin = array.document_begin(i);
    int64_t left = array.document_begin(i + 1) - begin;
    if (left > rule.seq_length && rule.long_documents == LongDocuments::drop) {
      ++counts.dropped_documents;
      counts.dropped_tokens += left;
      continue;
    }
    if (left > rule.seq_length) ++counts.split_documents;
    for (; left > rule.seq_length; left -= rule.seq_length, begin += rule.seq_length)
      plan->add_alone(begin, static_cast<int32_t>(rule.seq_length), 1);
    if (left == 0) continue;  // a document without any token
    begins.push_back(begin);
    lengths.push_back(static_cast<int32_t>(left));
    if (lengths.size() == kGroup) plan->add_group(begins, lengths);
  }
  plan->add_group(begins, lengths);
  plan->finish();
  return plan;
}

}  // namespace espalier
