// SPDX-License-Identifier: Apache-2.0
// Counts of token pairs inside documents, and the smoothed models that are made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace espalier {

/// n(a, b): how often b followed a, of ids in [0, vocab_size).
class BigramCounts {
 public:
  explicit BigramCounts(int64_t vocab_size);

  void add(int32_t before, int32_t after) {
    ++before_[static_cast<size_t>(before)];
    ++after_[static_cast<size_t>(after)];
    ++total_;
    const uint64_t key = pair_key(before, after);
    if (dense_.empty()) {
      ++sparse_[key];
    } else {
      ++dense_[key];
    }
  }
  int64_t pair(int32_t before, int32_t after) const;
  int64_t before(int32_t id) const { return before_[static_cast<size_t>(id)]; }  ///< n(a, any)
  int64_t after(int32_t id) const { return after_[static_cast<size_t>(id)]; }    ///< n(any, b)
  int64_t total() const { return total_; }
  int64_t vocab_size() const { return vocab_size_; }

  /// Calls f(before, after, count) for each pair that occurs.
  template <class F>
  void for_each(F&& f) const {
    const auto visit = [&](uint64_t key, int64_t count) {
      const auto v = static_cast<uint64_t>(vocab_size_);
      f(static_cast<int32_t>(key / v), static_cast<int32_t>(key % v), count);
    };
    for (uint64_t key = 0; key < dense_.size(); ++key) {
      if (dense_[key] > 0) visit(key, dense_[key]);
    }
    for (const auto& [key, count] : sparse_) visit(key, count);
  }

 private:
  uint64_t pair_key(int32_t before, int32_t after) const {
    return static_cast<uint64_t>(before) * static_cast<uint64_t>(vocab_size_) +
           static_cast<uint64_t>(after);
  }

  int64_t vocab_size_, total_ = 0;
  std::vector<int64_t> before_, after_;
  std::vector<int64_t> dense_;                    // V*V for small vocabularies, else empty
  std::unordered_map<uint64_t, int64_t> sparse_;  // for large ones
};

/// The two smoothed models of bigram_baseline.hpp, with concentrations chosen by leave-one-out.
class BigramModel {
 public:
  explicit BigramModel(const BigramCounts& counts);

  double unigram(int32_t after) const;                 ///< P(b)
  double bigram(int32_t before, int32_t after) const;  ///< P(b|a)
  double unigram_concentration() const { return k0_; }
  double bigram_concentration() const { return k1_; }

 private:
  double unigram_left_out(int64_t count, double k0) const;
  double unigram_likelihood(double k0) const;
  double bigram_likelihood(double k1) const;

  const BigramCounts& counts_;
  double k0_ = 0.0, k1_ = 0.0;
};

}  // namespace espalier
