// SPDX-License-Identifier: Apache-2.0
// The residual addition and the addition of a bias.
#include "cuda/pointwise.hpp"

#include "cuda/norm.hpp"
#include "cuda/pieces.cuh"

namespace espalier::cuda {
namespace {

template <class T, int W>
struct Residual {
  T* x;
  const T *stream, *delta, *bias;
  int64_t columns;
  struct Held {
    Piece<T, W> stream, delta, bias;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * columns + piece * W;
    Held h;
    h.stream = load_piece<W>(stream + at);
    h.delta = load_piece<W>(delta + at);
    if (bias != nullptr) h.bias = load_piece<W>(bias + piece * W);
    return h;
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    float s[W], d[W], b[W];
    to_floats(h.stream, s);
    to_floats(h.delta, d);
    if (bias != nullptr) {
      to_floats(h.bias, b);
#pragma unroll
      for (int e = 0; e < W; ++e) d[e] += b[e];
    }
#pragma unroll
    for (int e = 0; e < W; ++e) s[e] += d[e];
    store_piece<W>(x + row * columns + piece * W, to_piece<T>(s));
  }
};

template <class T, int W>
struct AddBias {
  T* x;
  const T* bias;
  int64_t columns;
  struct Held {
    Piece<T, W> x, bias;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    return {load_piece<W>(x + row * columns + piece * W), load_piece<W>(bias + piece * W)};
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    float v[W], b[W];
    to_floats(h.x, v);
    to_floats(h.bias, b);
#pragma unroll
    for (int e = 0; e < W; ++e) v[e] += b[e];
    store_piece<W>(x + row * columns + piece * W, to_piece<T>(v));
  }
};

}  // namespace

template <class T>
void residual_add(T* x, const T* stream, const T* delta, const T* delta_bias, int64_t rows,
                  int64_t columns, Stream s) {
  if (rows == 0 || columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, x, stream, delta, delta_bias))
    pointwise<4>("residual_add", Residual<T, W>{x, stream, delta, delta_bias, columns}, rows,
                 columns / W, s);
  else
    pointwise<4>("residual_add", Residual<T, 1>{x, stream, delta, delta_bias, columns}, rows,
                 columns, s);
}

template <class T>
void add_bias(T* x, const T* bias, int64_t rows, int64_t columns, Stream stream) {
  if (rows == 0 || columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, x, bias))
    pointwise<4>("add_bias", AddBias<T, W>{x, bias, columns}, rows, columns / W, stream);
  else
    pointwise<4>("add_bias", AddBias<T, 1>{x, bias, columns}, rows, columns, stream);
}

#define ESPALIER_INSTANTIATE(T)                                                              \
  template void residual_add<T>(T*, const T*, const T*, const T*, int64_t, int64_t, Stream); \
  template void add_bias<T>(T*, const T*, int64_t, int64_t, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
