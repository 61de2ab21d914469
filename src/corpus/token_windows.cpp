// SPDX-License-Identifier: Apache-2.0
// Windows over token arrays and over random tokens.
#include "corpus/token_windows.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {

ArrayWindows::ArrayWindows(std::vector<std::unique_ptr<const TokenArray>> arrays,
                           int64_t seq_length, ShortArrays shorter)
    : seq_length_(seq_length), arrays_(std::move(arrays)), first_window_{0} {
  ESPALIER_REQUIRE(!arrays_.empty() && seq_length >= 1, "{} token arrays, windows of {} tokens",
                   arrays_.size(), seq_length);
  for (const auto& array : arrays_) {
    const int64_t windows = array->tokens() > 0 ? (array->tokens() - 1) / seq_length : 0;
    if (windows < 1 && shorter == ShortArrays::refuse) {
      throw DataError(
          fmt::format("{}: {} tokens, but one sequence needs {} (batch.seq_length = {} and one "
                      "more as the last "
                      "target); give more text to it, or make batch.seq_length smaller",
                      array->path(), array->tokens(), seq_length + 1, seq_length));
    }
    first_window_.push_back(first_window_.back() + windows);
  }
}

void ArrayWindows::read(int64_t window, int32_t* out) const {
  ESPALIER_REQUIRE(window >= 0 && window < windows(), "window {} of {}", window, windows());
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto array = static_cast<size_t>(after - first_window_.begin()) - 1;
  arrays_[array]->read((window - first_window_[array]) * seq_length_, seq_length_ + 1, out);
}

int32_t ArrayWindows::end_of_document() const {
  return arrays_.front()->end_of_document();
}

RandomWindows::RandomWindows(uint64_t seed, uint64_t purpose, int64_t vocab_size,
                             int64_t seq_length)
    : seed_(seed), purpose_(purpose), vocab_size_(vocab_size), seq_length_(seq_length) {
  ESPALIER_REQUIRE(seq_length >= 1, "windows of {} tokens", seq_length);
  if (vocab_size < 2) {
    throw DeckError(
        fmt::format("model.vocab_size = {} (data.source = \"random\" needs one id for "
                    "the end of a document and one for text); make it at least 2",
                    vocab_size));
  }
  // At least two tokens a document in the mean, so that short sequences predict something too.
  const double mean_length = std::max(2.0, static_cast<double>(seq_length) / 3.0);
  end_below_ = static_cast<uint64_t>(std::ldexp(1.0 / mean_length, 64));
}

void RandomWindows::read(int64_t window, int32_t* out) const {
  ESPALIER_REQUIRE(window >= 0, "window {}", window);
  const auto texts = static_cast<uint64_t>(vocab_size_ - 1);
  const uint64_t begin = static_cast<uint64_t>(window) * static_cast<uint64_t>(seq_length_);
  for (int64_t i = 0; i <= seq_length_; ++i) {
    const Philox4 r = philox(seed_, purpose_, begin + static_cast<uint64_t>(i));
    const uint64_t ends = (uint64_t{r.v[3]} << 32) | r.v[2];
    // vocab_size < 2^31, so 32 random bits times it do not overflow.
    out[i] = ends < end_below_ ? end_of_document()
                               : static_cast<int32_t>((uint64_t{r.v[0]} * texts) >> 32);
  }
}

}  // namespace espalier
