// SPDX-License-Identifier: Apache-2.0
// Normalisation fused with the residual addition, the tuned form of layers/norm.hpp.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace espalier::cuda {

/// Row r starts at data + (r / groups) * outer + (r % groups) * inner, as RowSet of
/// layers/norm.hpp.
/// At most 2^31 rows, groups below 2^31.
template <class T>
struct NormRows {
  T* data = nullptr;
  int64_t rows = 0, columns = 0, groups = 1, outer = 0, inner = 0;
};

/// y = norm(x). statistics [rows, 2] = mean (0 where not centred), 1 / deviation. bias may be null.
/// T = float, bf16, fp16. Any number of columns; 16-byte accesses where alignment allows.
template <class T>
struct NormForward {
  NormRows<T> y;
  float* statistics = nullptr;
  NormRows<const T> x;
  const T *weight = nullptr, *bias = nullptr;
  float eps = 0;
  bool centred = true;  // LayerNorm, else RMSNorm
};
template <class T>
void norm_forward(const NormForward<T>& call, Stream stream);

/// x = stream + (delta + delta_bias), y = norm(x), all [rows, columns] without gaps. delta_bias,
/// bias may be null. The statistics are those of x as rounded to T.
template <class T>
struct ResidualNormForward {
  T *y = nullptr, *x = nullptr;
  float* statistics = nullptr;
  const T *stream = nullptr, *delta = nullptr, *delta_bias = nullptr;
  const T *weight = nullptr, *bias = nullptr;
  int64_t rows = 0, columns = 0;
  float eps = 0;
  bool centred = true;
};
template <class T>
void residual_norm_forward(const ResidualNormForward<T>& call, Stream stream);

/// x = stream + (delta + delta_bias); x may be stream, delta_bias may be null.
template <class T>
void residual_add(T* x, const T* stream, const T* delta, const T* delta_bias, int64_t rows,
                  int64_t columns, Stream s);

/// Gradients, formulas as in layers/norm.hpp. dw, db [columns] are added to (db may be null); dx is
/// added to or overwritten. dx may be dy. partials: scratch of at least norm_partial_rows(rows) * 2
/// * columns elements (layers/norm.hpp: one row of sums for every 64 rows of x).
/// Deterministic: sums over rows are formed in chunks of 64 rows, the chunks then in 32 runs, in
/// order. All norms: the order of additions depends on type and columns (backward: on the number of
/// rows too), not on where the rows lie, so that a row has the same bits wherever it is.
template <class T>
struct NormBackward {
  NormRows<T> dx;
  bool accumulate = false;
  float *dw = nullptr, *db = nullptr;
  NormRows<const T> dy, x;
  const float* statistics = nullptr;
  const T* weight = nullptr;
  float* partials = nullptr;
  bool centred = true;
};
template <class T>
void norm_backward(const NormBackward<T>& call, Stream stream);

}  // namespace espalier::cuda
