// SPDX-License-Identifier: Apache-2.0
// Dropout whose masks are pure functions of (seed, purpose, global index): no rank number and no
// position within a shard enters, so no layout changes a mask, and backward computes it again.
#pragma once

#include "core/error.hpp"
#include "tensor/rows.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// One mask over an unbounded range of elements. `purpose` names the place in the model and the
/// step (a hash); masks of different purposes are independent. probability 0 drops nothing.
struct DropoutMask {
  double probability = 0;
  uint64_t seed = 0, purpose = 0;
  bool active() const { return probability != 0; }
};

/// A mask ready for a kernel: factor(i) = 0 where element i is dropped, else 1 / (1 - probability).
/// Element i is dropped where word i % 4 of Philox block i / 4 of stream (seed, purpose) lies below
/// probability * 2^32.
/// Errors    InternalError unless 0 <= probability < 1
/// Source    Srivastava et al. 2014, JMLR 15, 1929; Philox as in core/random.hpp
template <class Real>
class DropoutFactors {
 public:
  explicit DropoutFactors(const DropoutMask& mask)
      : seed_(mask.seed), purpose_(mask.purpose), active_(mask.active()) {
    ESPALIER_REQUIRE(mask.probability >= 0 && mask.probability < 1, "a dropout probability of {}",
                     mask.probability);
    threshold_ = static_cast<uint32_t>(mask.probability * 0x1.0p32);
    kept_ = static_cast<Real>(1.0 / (1.0 - mask.probability));
  }
  KOKKOS_INLINE_FUNCTION bool active() const { return active_; }

  /// factor(i) by itself; for few elements.
  KOKKOS_INLINE_FUNCTION Real at(uint64_t i) const {
    return philox(seed_, purpose_, i / 4).v[i % 4] < threshold_ ? Real(0) : kept_;
  }

  /// factors[j] = factor(first + j) for j in [0, n), n <= kMost.
  static constexpr int64_t kMost = 256;
  void fill(Real* factors, uint64_t first, int64_t n) const {
    uint32_t words[kMost + 4];
    const uint64_t block = first / 4;
    const int64_t skipped = static_cast<int64_t>(first % 4), blocks = (skipped + n + 3) / 4;
#pragma GCC ivdep
    for (int64_t b = 0; b < blocks; ++b) {
      const Philox4 r = philox(seed_, purpose_, block + static_cast<uint64_t>(b));
      words[4 * b] = r.v[0];
      words[4 * b + 1] = r.v[1];
      words[4 * b + 2] = r.v[2];
      words[4 * b + 3] = r.v[3];
    }
    const uint32_t* from = words + skipped;
    for (int64_t j = 0; j < n; ++j) factors[j] = from[j] < threshold_ ? Real(0) : kept_;
  }

  /// f(j, factor(first + j)) for every element j of a row of n; iterations must be independent.
  template <class F>
  KOKKOS_INLINE_FUNCTION void each(const Row& row, uint64_t first, int64_t n, const F& f) const {
    if constexpr (kOnHost) {
      Real factors[kMost];
      for (int64_t low = 0; low < n; low += kMost) {
        const int64_t count = n - low < kMost ? n - low : kMost;
        fill(factors, first + static_cast<uint64_t>(low), count);
        row.each(count, [&](int64_t j) { f(low + j, factors[j]); });
      }
    } else {
      const int64_t skipped = static_cast<int64_t>(first % 4);
      row.each((skipped + n + 3) / 4, [&](int64_t b) {
        const Philox4 r = philox(seed_, purpose_, first / 4 + static_cast<uint64_t>(b));
        for (int64_t l = 0; l < 4; ++l) {
          const int64_t j = 4 * b + l - skipped;
          if (j >= 0 && j < n) f(j, r.v[l] < threshold_ ? Real(0) : kept_);
        }
      });
    }
  }

 private:
  uint64_t seed_, purpose_;
  uint32_t threshold_ = 0;
  Real kept_ = 1;
  bool active_;
};

/// Masks of the elements of a matrix have the index token_index[row] * columns + column.
inline void require_token_index(const DropoutMask& mask, const int64_t* token_index,
                                const char* what) {
  ESPALIER_REQUIRE(!mask.active() || token_index != nullptr,
                   "{} with dropout {} needs the global indices of its tokens", what,
                   mask.probability);
}

/// out = in * factor, element by element: dropout, and, being linear, its gradient. `out` may be
/// `in`; without dropout it becomes a copy.
///
/// Shapes    out, in [rows, columns]; token_index [rows], the rows' global token indices, may be
///           null where mask.probability is 0
template <class T>
void apply_dropout(const Mat<T>& out, const Mat<const T>& in, const DropoutMask& mask,
                   const int64_t* token_index);

}  // namespace espalier
