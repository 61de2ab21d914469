// SPDX-License-Identifier: Apache-2.0
#include "emulator/product.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

#include "tensor/types.hpp"

namespace espalier::emulator {
namespace {

template <class F>
void with_type(cudaDataType_t type, const F& f) {
  switch (type) {
    case CUDA_R_64F: return f(double());
    case CUDA_R_32F: return f(float());
    case CUDA_R_16F: return f(fp16(0.0f));
    case CUDA_R_16BF: return f(bf16(0.0f));
  }
}

/// op(X) of one batch, by columns.
template <class Real>
std::vector<Real> widen(const Matrix& x, bool transpose, int64_t batch) {
  const MatrixLayout& m = x.layout;
  const bool by_rows = (m.order == CUBLASLT_ORDER_ROW) != transpose;
  const int64_t rows = transpose ? m.columns : m.rows, columns = transpose ? m.rows : m.columns;
  const int64_t row_step = by_rows ? m.ld : 1, column_step = by_rows ? 1 : m.ld;
  std::vector<Real> out(static_cast<size_t>(rows * columns));
  with_type(m.type, [&](auto zero) {
    const auto* const data = static_cast<const decltype(zero)*>(x.data) + batch * m.batch_stride;
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i)
        out[static_cast<size_t>(j * rows + i)] =
            static_cast<Real>(data[i * row_step + j * column_step]);
  });
  return out;
}

/// f(k) for the parts of the sum one after the other, then next().
template <class F, class Next>
void walk(uint64_t order, int64_t k, const F& f, const Next& next) {
  if (order == 0) {
    for (int64_t p = 0; p < k; ++p) f(p);
  } else if (order == 1) {
    for (int64_t p = k; p-- > 0;) f(p);
  } else if (order == 2) {
    for (int64_t p = 0; p < k / 2; ++p) f(p);
    next();
    for (int64_t p = k / 2; p < k; ++p) f(p);
  } else {
    for (int64_t p = 0; p < k; p += 2) f(p);
    next();
    for (int64_t p = 1; p < k; p += 2) f(p);
  }
  next();
}

/// The bias gradient: bias[i] = the sum over p of values[i * step + p * step_of_k].
template <class Real>
void sum_over_k(const Product& product, const std::vector<Real>& values, int64_t size, int64_t k,
                int64_t step, int64_t step_of_k) {
  with_type(product.bias_type, [&](auto zero) {
    using T = decltype(zero);
    T* const out = static_cast<T*>(product.bias);
    for (int64_t i = 0; i < size; ++i) {
      Real total = 0;
      for (int64_t p = 0; p < k; ++p)
        total += values[static_cast<size_t>(i * step + p * step_of_k)];
      out[i] = T(static_cast<Acc<T>>(total));
    }
  });
}

template <class Real>
void multiply_batch(const Product& product, int64_t batch) {
  const MatrixLayout& d = product.d.layout;
  const int64_t m = d.rows, n = d.columns;
  const int64_t k = product.transpose_a ? product.a.layout.rows : product.a.layout.columns;
  const std::vector<Real> a = widen<Real>(product.a, product.transpose_a, batch);
  const std::vector<Real> b = widen<Real>(product.b, product.transpose_b, batch);
  const auto rows = static_cast<size_t>(m);
  std::vector<Real> part(rows), sum(rows);
  const auto next = [&] {
    for (size_t i = 0; i < rows; ++i) sum[i] += part[i];
    part.assign(rows, Real(0));
  };

  with_type(d.type, [&](auto zero) {
    using T = decltype(zero);
    const bool by_rows = d.order == CUBLASLT_ORDER_ROW;
    T* const out = static_cast<T*>(product.data_of_d) + batch * d.batch_stride;
    const MatrixLayout& c = product.c.layout;
    const bool c_by_rows = c.order == CUBLASLT_ORDER_ROW;
    const T* const before = static_cast<const T*>(product.c.data) + batch * c.batch_stride;
    for (int64_t j = 0; j < n; ++j) {
      part.assign(rows, Real(0));
      sum.assign(rows, Real(0));
      walk(
          product.order, k,
          [&](int64_t p) {
            const Real factor = b[static_cast<size_t>(j * k + p)];
            const Real* const column = a.data() + p * m;
            for (size_t i = 0; i < rows; ++i) part[i] += factor * column[i];
          },
          next);
      for (int64_t i = 0; i < m; ++i) {
        Real x = static_cast<Real>(product.alpha) * sum[static_cast<size_t>(i)];
        if (product.beta != 0)
          x += static_cast<Real>(product.beta) *
               static_cast<Real>(before[c_by_rows ? i * c.ld + j : j * c.ld + i]);
        if (product.epilogue == CUBLASLT_EPILOGUE_BIAS)
          with_type(product.bias_type, [&](auto z) {
            x += static_cast<Real>(static_cast<const decltype(z)*>(product.bias)[i]);
          });
        if constexpr (std::is_same_v<Real, double>)
          out[by_rows ? i * d.ld + j : j * d.ld + i] = T(static_cast<Acc<T>>(x));
        else
          out[by_rows ? i * d.ld + j : j * d.ld + i] = T(x);
      }
    }
  });
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_over_k<Real>(product, a, m, k, 1, m);
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_over_k<Real>(product, b, n, k, k, 1);
}

}  // namespace

bool needs_workspace(uint64_t order) {
  return order >= 2;
}

size_t element_size(cudaDataType_t type) {
  size_t size = 0;
  with_type(type, [&](auto zero) { size = sizeof zero; });
  return size;
}

void multiply(const Product& product) {
  if (product.workspace_bytes > 0)
    memset(product.workspace, 0xff, static_cast<size_t>(product.workspace_bytes));
  for (int64_t batch = 0; batch < product.d.layout.batches; ++batch) {
    if (product.d.layout.type == CUDA_R_64F)
      multiply_batch<double>(product, batch);
    else
      multiply_batch<float>(product, batch);
  }
}

}  // namespace espalier::emulator
