// SPDX-License-Identifier: Apache-2.0
// Loops over a row of logits that the whole and the sharded cross-entropy share. Private to this
// room.
#pragma once

#include "tensor/math.hpp"
#include "tensor/rows.hpp"

namespace espalier {

template <class T>
KOKKOS_INLINE_FUNCTION Acc<T> greatest_logit(const Row& row, const T* z, int64_t n) {
  using Real = Acc<T>;
  return row.template max<Real>(n, lowest_number<Real>(), [=](int64_t v) { return Real(z[v]); });
}

template <class T>
KOKKOS_INLINE_FUNCTION Acc<T> sum_of_exponentials(const Row& row, const T* z, int64_t n,
                                                  Acc<T> scale, Acc<T> greatest) {
  using Real = Acc<T>;
  return row.template sum<Real>(
      n, [=](int64_t v) { return exp_value(Real(z[v]) * scale - greatest); });
}

// exp of every logit less the greatest, and their sum; kept in place of the logits where T is the
// sum type, so that the gradient need not compute them again.
template <class T>
KOKKOS_INLINE_FUNCTION Acc<T> exponentials(const Row& row, T* z, int64_t n, Acc<T> scale,
                                           Acc<T> greatest) {
  using Real = Acc<T>;
  if constexpr (std::is_same_v<T, Real>) {
    row.each(n, [=](int64_t v) { z[v] = exp_value(z[v] * scale - greatest); });
    return row.template sum<Real>(n, [=](int64_t v) { return z[v]; });
  } else {
    return sum_of_exponentials<T>(row, z, n, scale, greatest);
  }
}

// z = exp(scale * logit - greatest) * factor, from what `exponentials` left with `kept_greatest`.
template <class T>
KOKKOS_INLINE_FUNCTION void scale_exponentials(const Row& row, T* z, int64_t n, Acc<T> scale,
                                               Acc<T> kept_greatest, Acc<T> greatest,
                                               Acc<T> factor) {
  using Real = Acc<T>;
  if constexpr (std::is_same_v<T, Real>) {
    const Real whole = exp_value(kept_greatest - greatest) * factor;
    row.each(n, [=](int64_t v) { z[v] *= whole; });
  } else {
    row.each(n, [=](int64_t v) { z[v] = T(exp_value(Real(z[v]) * scale - greatest) * factor); });
  }
}

}  // namespace espalier
