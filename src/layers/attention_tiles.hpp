// SPDX-License-Identifier: Apache-2.0
// What forward and backward attention share: panels of one head in the sum type, the walk over
// tiles, the range of keys a tile of queries can see, and dropout. Private to this room.
#pragma once

#include <algorithm>

#include "core/error.hpp"
#include "layers/attention.hpp"
#include "tensor/gemm.hpp"

namespace espalier::attention_detail {

/// A strided matrix in the sum type: one head's rows, in place or widened.
template <class Real>
struct Panel {
  const Real* data = nullptr;
  int64_t stride = 0;
  const Real* row(int64_t i) const { return data + i * stride; }
};

/// One head's rows of x as a panel: a plain view when T is the sum type, else a widened copy.
template <class T>
Panel<Acc<T>> open_panel(const T* x, int64_t stride, int64_t rows, int64_t columns, Acc<T>* copy) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    (void)rows, (void)columns, (void)copy;
    return {x, stride};
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) copy[i * columns + j] = Acc<T>(x[i * stride + j]);
    return {copy, columns};
  }
}

template <class T>
void store_panel(T* x, int64_t stride, int64_t rows, int64_t columns, const Acc<T>* panel) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) x[i * stride + j] = T(panel[i * columns + j]);
}

/// Element `channel` of token t.
template <class T>
T* at(const HeadRows<T>& rows, int64_t t, int64_t channel) {
  return rows.data + t * rows.stride + channel;
}

/// Whether rows of these strides hold all heads of the shape.
template <class T, class Out, class Real>
void require_shapes(const QueryKeyValue<T>& in, const HeadRows<Out>& heads,
                    const HeadRows<Real>& log_sum, const AttentionShape& shape) {
  const HeadShape& h = shape.head;
  const int64_t query = h.heads * h.head_dim, key = h.kv_heads * h.head_dim;
  ESPALIER_REQUIRE(h.kv_heads > 0 && h.heads % h.kv_heads == 0, "attention of {} heads on {}",
                   h.heads, h.kv_heads);
  ESPALIER_REQUIRE(in.q.stride >= query && in.k.stride >= key && in.v.stride >= key &&
                       heads.stride >= query && log_sum.stride >= h.heads,
                   "attention of {} heads on {} of {}, in rows of {}, {}, {}, {}, {}", h.heads,
                   h.kv_heads, h.head_dim, in.q.stride, in.k.stride, in.v.stride, heads.stride,
                   log_sum.stride);
}

/// First key that any query of [first, last) may see.
inline int64_t first_key(const int32_t* document_start, int64_t first, int64_t last) {
  return *std::min_element(document_start + first, document_start + last);
}

/// Calls f(key_first, key_last) for the tiles of keys that queries [first, last) can see.
template <class F>
void for_each_key_tile(const int32_t* document_start, int64_t first, int64_t last, const F& f) {
  for (int64_t k = first_key(document_start, first, last); k < last; k += kKeyTile)
    f(k, std::min(k + kKeyTile, last));
}

/// Keys of [key_first, key_last) that query `t` sees, relative to key_first: [low, high).
struct KeyRange {
  int64_t low, high;
};
inline KeyRange visible(const int32_t* document_start, int64_t t, int64_t key_first,
                        int64_t key_last) {
  const int64_t low = std::max<int64_t>(0, document_start[t] - key_first);
  const int64_t high = std::min(key_last, t + 1) - key_first;
  return {std::min(low, std::max<int64_t>(high, 0)), std::max<int64_t>(high, 0)};
}

/// The dropout mask of the weights of one head in one sequence.
template <class Real>
class WeightDropout {
 public:
  WeightDropout(const AttentionDropout& d, const AttentionShape& shape)
      : factors_(d.mask),
        first_token_(d.first_token),
        first_head_(d.first_head),
        heads_(d.heads),
        length_(shape.length) {
    ESPALIER_REQUIRE(!d.mask.active() ||
                         (d.first_token != nullptr && d.first_head + shape.head.heads <= d.heads),
                     "attention dropout of {} heads from {} of {} needs global indices",
                     shape.head.heads, d.first_head, d.heads);
  }
  bool active() const { return factors_.active(); }

  /// Chooses the sequence and the head of the call.
  void select(int64_t sequence, int64_t head) {
    if (active())
      first_ = index(first_token_[sequence]) * row() + index(first_head_ + head) * length();
  }
  /// Factors of query t on the keys of `range`, relative to key_first.
  void fill(Real* factors, int64_t t, int64_t key_first, KeyRange range) const {
    const uint64_t key = index(key_first + range.low);
    factors_.fill(factors, first_ + index(t) * row() + key, range.high - range.low);
  }

 private:
  static uint64_t index(int64_t i) { return static_cast<uint64_t>(i); }
  uint64_t length() const { return index(length_); }
  uint64_t row() const { return index(heads_) * length(); }  // weights of a token

  DropoutFactors<Real> factors_;
  const int64_t* first_token_;
  int64_t first_head_, heads_, length_;
  uint64_t first_ = 0;
};
static_assert(kKeyTile <= DropoutFactors<float>::kMost, "a tile's factors are made at once");

template <class Real>
void multiply(Real* x, const Real* factors, KeyRange range) {
  Real* from = x + range.low;
  HostRow(0).each(range.high - range.low, [=](int64_t k) { from[k] *= factors[k]; });
}

}  // namespace espalier::attention_detail
