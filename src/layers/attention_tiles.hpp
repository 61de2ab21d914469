// SPDX-License-Identifier: Apache-2.0
// What forward and backward attention share: panels of one head in the sum type, the walk over
// tiles, and the range of keys a tile of queries can see. Private to this room.
#pragma once

#include <algorithm>

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

}  // namespace espalier::attention_detail
