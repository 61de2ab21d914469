// SPDX-License-Identifier: Apache-2.0
// Layer normalisation and root-mean-square normalisation, with the residual addition that comes
// before them in a transformer block fused in.
#pragma once

#include <type_traits>

#include "blueprint/activation_plan.hpp"
#include "deck/config.hpp"
#include "layers/dropout.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Rows that need not lie one after the other: row r starts at
/// data + (r / groups) * outer + (r % groups) * inner (the heads inside a token's qkv, say).
template <class T>
struct RowSet {
  T* data = nullptr;
  int64_t rows = 0, columns = 0, groups = 1, outer = 0, inner = 0;

  RowSet() = default;
  RowSet(const Mat<T>& m)  // NOLINT: a matrix is a set of rows
      : data(m.data()), rows(m.extent(0)), columns(m.extent(1)), outer(m.extent(1)) {}
  RowSet(T* d, int64_t r, int64_t c, int64_t g, int64_t o, int64_t i)
      : data(d), rows(r), columns(c), groups(g), outer(o), inner(i) {}
  KOKKOS_INLINE_FUNCTION T* row(int64_t r) const {
    return groups == 1 ? data + r * outer : data + (r / groups) * outer + (r % groups) * inner;
  }
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  RowSet(const RowSet<U>& r)  // NOLINT: T to const T
      : RowSet(r.data, r.rows, r.columns, r.groups, r.outer, r.inner) {}
};

/// Weight and bias of a norm; bias.data() is null where the norm has none.
template <class T>
struct NormParameters {
  Vec<const T> weight, bias;
};

/// y = w * (x - mean) * rstd + b, rstd = 1 / sqrt(var + eps)      (layernorm)
/// y = w * x * rstd,              rstd = 1 / sqrt(mean(x^2) + eps) (rmsnorm)
///
/// Shapes    x, y [rows, columns]; w, b [columns]; statistics [rows, 2] = mean, rstd (kept for
///           backward; mean is 0 for rmsnorm); statistics_stride elements between rows' entries
/// Precision sums in the sum type of T, in kSumLanes lanes
/// Source    Ba, Kiros, Hinton 2016, arXiv:1607.06450; Zhang & Sennrich 2019, arXiv:1910.07467
template <class T>
void norm_forward(NormKind kind, const RowSet<T>& y, Acc<T>* statistics, const RowSet<const T>& x,
                  const NormParameters<T>& p, double eps);

/// x = stream + dropout(delta + delta_bias), then y = norm(x): the residual addition and the norm
/// that reads it in one pass. `delta_bias.data()` may be null. Shapes as above, all [tokens,
/// hidden]; token_index [tokens], global token indices, may be null where there is no dropout.
template <class T>
void residual_norm_forward(NormKind kind, const Mat<T>& y, Acc<T>* statistics, const Mat<T>& x,
                           const Mat<const T>& stream, const Mat<const T>& delta,
                           const Vec<const T>& delta_bias, const NormParameters<T>& p, double eps,
                           const DropoutMask& mask = {}, const int64_t* token_index = nullptr);

/// Gradients of norm_forward. dx is added to or overwritten as `accumulate` says; dw and db
/// (db.data() null where there is no bias) are added to.
///
/// With xhat = (x - mean) * rstd and g = w * dy:
///   layernorm dx = rstd * (g - mean(g) - xhat * mean(g * xhat));  rmsnorm the same without mean(g)
///   dw = sum over rows of dy * xhat;  db = sum over rows of dy
/// Workspace partials, at least norm_partial_rows(rows) * 2 * columns elements: the sums over rows
///           are taken in chunks of kNormChunk rows and then over chunks, both in row order
enum class Accumulate { no, yes };
template <class T>
void norm_backward(NormKind kind, const RowSet<T>& dx, Accumulate accumulate, const Vec<Acc<T>>& dw,
                   const Vec<Acc<T>>& db, const RowSet<const T>& dy, const RowSet<const T>& x,
                   const Acc<T>* statistics, const Vec<const T>& weight, Acc<T>* partials);

constexpr int64_t norm_partial_rows(int64_t rows) {
  return (rows + kNormChunk - 1) / kNormChunk;
}

}  // namespace espalier
