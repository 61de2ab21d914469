// SPDX-License-Identifier: Apache-2.0
// Where the heads of queries, keys, values and outputs stand in memory.
#pragma once

#include <type_traits>

#include "tensor/views.hpp"

namespace espalier {

/// Numbers of heads, and where they stand in a row of a packed qkv matrix: all query heads, then
/// all key heads, then all value heads.
struct HeadShape {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  KOKKOS_INLINE_FUNCTION int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
};

/// Some heads of every token: element (token t, head h, channel d) stands at
/// data[t * stride + h * head_dim + d]. Owns nothing.
template <class T>
struct HeadRows {
  T* data = nullptr;
  int64_t stride = 0;

  HeadRows() = default;
  HeadRows(T* first, int64_t token_stride) : data(first), stride(token_stride) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  HeadRows(const HeadRows<U>& other)  // NOLINT: T to const T
      : data(other.data), stride(other.stride) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  HeadRows(const Mat<U>& m)  // NOLINT: a matrix [tokens, heads * head_dim] is rows of heads
      : data(m.data()), stride(static_cast<int64_t>(m.extent(1))) {}
};

/// Queries, keys and values of the same tokens, each wherever it lies.
template <class T>
struct QueryKeyValue {
  HeadRows<T> q, k, v;

  QueryKeyValue() = default;
  QueryKeyValue(HeadRows<T> queries, HeadRows<T> keys, HeadRows<T> values)
      : q(queries), k(keys), v(values) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  QueryKeyValue(const QueryKeyValue<U>& other)  // NOLINT: T to const T
      : q(other.q), k(other.k), v(other.v) {}
};

/// The three parts of a packed matrix [tokens, shape.row()].
template <class T>
QueryKeyValue<T> query_key_value(const Mat<T>& qkv, const HeadShape& shape) {
  const int64_t width = static_cast<int64_t>(qkv.extent(1)), dim = shape.head_dim;
  T* first = qkv.data();
  return {{first, width},
          {first + shape.heads * dim, width},
          {first + (shape.heads + shape.kv_heads) * dim, width}};
}

}  // namespace espalier
