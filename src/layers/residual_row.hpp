// SPDX-License-Identifier: Apache-2.0
// One row of the residual addition, which stands alone and in front of a norm. Private to this
// room.
#pragma once

#include "layers/dropout.hpp"

namespace espalier::residual_detail {

/// What a kernel needs of the addition: x = stream + dropout(delta + bias).
template <class T>
struct Addition {
  T* x;
  const T *stream, *delta, *bias;  // bias may be null
  int64_t columns;
  DropoutFactors<Acc<T>> factors;
  const int64_t* token_index;  // read where factors are active

  Addition(const Mat<T>& sum, const Mat<const T>& from, const Mat<const T>& change,
           const Vec<const T>& change_bias, const DropoutMask& mask, const int64_t* tokens)
      : x(sum.data()),
        stream(from.data()),
        delta(change.data()),
        bias(change_bias.data()),
        columns(sum.extent(1)),
        factors(mask),
        token_index(tokens) {
    ESPALIER_REQUIRE(sum.extent(0) == change.extent(0) && sum.extent(0) == from.extent(0) &&
                         sum.extent(1) == change.extent(1) && sum.extent(1) == from.extent(1),
                     "residual addition to x [{}, {}] of delta [{}, {}]", sum.extent(0),
                     sum.extent(1), change.extent(0), change.extent(1));
    require_token_index(mask, tokens, "a residual addition");
  }

  KOKKOS_INLINE_FUNCTION void row(const Row& at) const {
    using Real = Acc<T>;
    const int64_t n = columns, first = at.index() * n;
    T* target = x + first;
    const T* a = stream + first;
    const T* d = delta + first;
    const T* b = bias;
    if (factors.active()) {
      const auto index = static_cast<uint64_t>(token_index[at.index()] * n);
      if (b != nullptr)
        factors.each(at, index, n, [=](int64_t j, Real f) {
          target[j] = T(Real(a[j]) + (Real(d[j]) + Real(b[j])) * f);
        });
      else
        factors.each(at, index, n,
                     [=](int64_t j, Real f) { target[j] = T(Real(a[j]) + Real(d[j]) * f); });
    } else if (b != nullptr) {
      at.each(n, [=](int64_t j) { target[j] = T(Real(a[j]) + (Real(d[j]) + Real(b[j]))); });
    } else {
      at.each(n, [=](int64_t j) { target[j] = T(Real(a[j]) + Real(d[j])); });
    }
  }
};

}  // namespace espalier::residual_detail
