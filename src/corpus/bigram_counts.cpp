// SPDX-License-Identifier: Apache-2.0
// Smoothing of unigram and bigram counts.
#include "corpus/bigram_counts.hpp"

#include <cmath>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr int64_t kDenseVocabulary = 2048;  // 32 MiB of counts

// Golden-section search of the maximum of f over x = log k, k in [1e-4, 1e8]. The leave-one-out
// likelihoods are taken to have one maximum there, or to grow towards an end, then the answer.
template <class F>
double maximise(F&& f) {
  const double ratio = (std::sqrt(5.0) - 1.0) / 2.0;
  double low = std::log(1e-4), high = std::log(1e8);
  double x1 = high - ratio * (high - low), x2 = low + ratio * (high - low);
  double f1 = f(std::exp(x1)), f2 = f(std::exp(x2));
  while (high - low > 1e-3) {
    if (f1 < f2) {
      low = x1;
      x1 = x2;
      f1 = f2;
      x2 = low + ratio * (high - low);
      f2 = f(std::exp(x2));
    } else {
      high = x2;
      x2 = x1;
      f2 = f1;
      x1 = high - ratio * (high - low);
      f1 = f(std::exp(x1));
    }
  }
  return std::exp(0.5 * (low + high));
}

}  // namespace

BigramCounts::BigramCounts(int64_t vocab_size) : vocab_size_(vocab_size) {
  ESPALIER_REQUIRE(vocab_size >= 1, "counts over {} ids", vocab_size);
  before_.resize(static_cast<size_t>(vocab_size));
  after_.resize(static_cast<size_t>(vocab_size));
  if (vocab_size <= kDenseVocabulary) dense_.resize(static_cast<size_t>(vocab_size * vocab_size));
}

int64_t BigramCounts::pair(int32_t before, int32_t after) const {
  const uint64_t key = pair_key(before, after);
  if (!dense_.empty()) return dense_[key];
  const auto found = sparse_.find(key);
  return found == sparse_.end() ? 0 : found->second;
}

BigramModel::BigramModel(const BigramCounts& counts) : counts_(counts) {
  ESPALIER_REQUIRE(counts.total() > 0, "a model of no counts");
  k0_ = maximise([this](double k) { return unigram_likelihood(k); });
  k1_ = maximise([this](double k) { return bigram_likelihood(k); });
}

double BigramModel::unigram(int32_t after) const {
  return (static_cast<double>(counts_.after(after)) +
          k0_ / static_cast<double>(counts_.vocab_size())) /
         (static_cast<double>(counts_.total()) + k0_);
}

double BigramModel::bigram(int32_t before, int32_t after) const {
  return (static_cast<double>(counts_.pair(before, after)) + k1_ * unigram(after)) /
         (static_cast<double>(counts_.before(before)) + k1_);
}

double BigramModel::unigram_left_out(int64_t count, double k0) const {
  return (static_cast<double>(count - 1) + k0 / static_cast<double>(counts_.vocab_size())) /
         (static_cast<double>(counts_.total() - 1) + k0);
}

double BigramModel::unigram_likelihood(double k0) const {
  double sum = 0.0;
  for (int64_t id = 0; id < counts_.vocab_size(); ++id) {
    const int64_t count = counts_.after(static_cast<int32_t>(id));
    if (count > 0) sum += static_cast<double>(count) * std::log(unigram_left_out(count, k0));
  }
  return sum;
}

double BigramModel::bigram_likelihood(double k1) const {
  double sum = 0.0;
  counts_.for_each([&](int32_t before, int32_t after, int64_t count) {
    const double shrunk = k1 * unigram_left_out(counts_.after(after), k0_);
    const double p = (static_cast<double>(count - 1) + shrunk) /
                     (static_cast<double>(counts_.before(before) - 1) + k1);
    sum += static_cast<double>(count) * std::log(p);
  });
  return sum;
}

}  // namespace espalier
