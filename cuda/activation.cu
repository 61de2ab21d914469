// SPDX-License-Identifier: Apache-2.0
// Activations fused with the bias before them. For 16-bit types the exponential and the reciprocal
// are the hardware's (errors about 2^-22, far below those types' rounding): with the library's the
// arithmetic, not the memory, would set the pace. fp32 keeps the portable forms.
#include "core/error.hpp"
#include "cuda/pieces.cuh"
#include "cuda/pointwise.hpp"
#include "cuda/row_sums.cuh"
#include "tensor/math.hpp"

namespace espalier::cuda {
namespace {

constexpr float kLog2e = 1.44269504f;

template <class T>
__device__ __forceinline__ float logistic(float x) {
  if constexpr (sizeof(T) == 2)
    return reciprocal_approximate(1.0f + exp2_approximate(-kLog2e * x));
  else
    return sigmoid(x);
}

struct GeluTanh {
  template <class T>
  __device__ static float gate(float u) {
    return logistic<T>(2.0f * 0.797884561f * fmaf(0.044715f * u * u, u, u));
  }
  template <class T>
  __device__ static float value(float u) {
    return u * gate<T>(u);
  }
  template <class T>
  __device__ static float slope(float u) {
    const float s = gate<T>(u);
    const float change = 2.0f * 0.797884561f * fmaf(3.0f * 0.044715f * u, u, 1.0f);
    return fmaf(u * s * (1.0f - s), change, s);
  }
};

struct Gelu {
  // For 16-bit types: e^(-u^2/2), and Phi(-|u|) without that factor, which is a polynomial of
  // 1 / (1 + 0.31 |u|). Its relative error is at most 4.7e-6 (minimax for |u| up to 14, where Phi
  // leaves fp32): 1/410 of half a unit in the last place of bf16, 1/50 of fp16.
  __device__ static float bell(float u) { return exp2_approximate(-0.5f * kLog2e * u * u); }
  __device__ static float scaled_tail(float size) {
    constexpr float kTerms[] = {-0.0739291044f, 0.180450243f, 0.0157448214f,
                                0.133429729f,   0.120441289f, 0.123860701f};
    const float t = reciprocal_approximate(fmaf(0.31f, size, 1.0f));
    float p = kTerms[0];
#pragma unroll
    for (int i = 1; i < 6; ++i) p = fmaf(p, t, kTerms[i]);
    return p * t;
  }
  template <class T>
  __device__ static float value(float u) {
    if constexpr (sizeof(T) == 4) {
      return u * normal_cdf(u);
    } else {
      const float size = fabsf(u);
      return fmaf(-size, scaled_tail(size) * bell(u), fmaxf(u, 0.0f));
    }
  }
  template <class T>
  __device__ static float slope(float u) {
    if constexpr (sizeof(T) == 4) {
      return fmaf(u, normal_density(u), normal_cdf(u));
    } else {
      const float size = fabsf(u), e = bell(u);
      const float rest = fmaf(-0.398942280f, size, scaled_tail(size));
      return u < 0.0f ? e * rest : fmaf(-e, rest, 1.0f);
    }
  }
};

// up of T from the sum with the bias in fp32: rounded, since backward sees the rounded one.
template <class T, int W>
__device__ __forceinline__ Piece<T, W> biased(const Piece<T, W>& up, const Piece<T, W>& bias) {
  float u[W], b[W];
  to_floats(up, u);
  to_floats(bias, b);
#pragma unroll
  for (int e = 0; e < W; ++e) u[e] += b[e];
  return to_piece<T>(u);
}

template <class Function, class T, int W>
struct Forward {
  T *y, *up;
  const T* bias;
  int64_t columns;
  struct Held {
    Piece<T, W> up, bias;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    Held h;
    h.up = load_piece<W>(static_cast<const T*>(up) + row * columns + piece * W);
    if (bias != nullptr) h.bias = load_piece<W>(bias + piece * W);
    return h;
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    const int64_t at = row * columns + piece * W;
    Piece<T, W> in = h.up;
    if (bias != nullptr) {
      in = biased<T, W>(h.up, h.bias);
      store_piece<W>(up + at, in);
    }
    float u[W];
    to_floats(in, u);
#pragma unroll
    for (int e = 0; e < W; ++e) u[e] = Function::template value<T>(u[e]);
    store_piece<W>(y + at, to_piece<T>(u));
  }
};

template <class Function, class T, int W>
struct Backward {
  T* d_up;
  const T *dy, *up;
  int64_t columns;
  struct Held {
    Piece<T, W> dy, up;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t at = row * columns + piece * W;
    return {load_piece<W>(dy + at), load_piece<W>(up + at)};
  }
  __device__ Piece<T, W> finish(const Held& h, int64_t row, int64_t piece) const {
    float g[W], u[W];
    to_floats(h.dy, g);
    to_floats(h.up, u);
#pragma unroll
    for (int e = 0; e < W; ++e) g[e] *= Function::template slope<T>(u[e]);
    const Piece<T, W> out = to_piece<T>(g);
    store_piece<W>(d_up + row * columns + piece * W, out);
    return out;
  }
};

template <class T, int W>
struct SwigluForward {
  T *y, *up;
  const T* bias;
  int64_t columns;  // of y
  struct Held {
    Piece<T, W> gate, up, gate_bias, up_bias;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const T* at = up + row * 2 * columns + piece * W;
    Held h;
    h.gate = load_piece<W>(at);
    h.up = load_piece<W>(at + columns);
    if (bias != nullptr) {
      h.gate_bias = load_piece<W>(bias + piece * W);
      h.up_bias = load_piece<W>(bias + columns + piece * W);
    }
    return h;
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    Piece<T, W> gates = h.gate, values = h.up;
    if (bias != nullptr) {
      T* at = up + row * 2 * columns + piece * W;
      gates = biased<T, W>(h.gate, h.gate_bias);
      values = biased<T, W>(h.up, h.up_bias);
      store_piece<W>(at, gates);
      store_piece<W>(at + columns, values);
    }
    float g[W], u[W];
    to_floats(gates, g);
    to_floats(values, u);
#pragma unroll
    for (int e = 0; e < W; ++e) g[e] = g[e] * logistic<T>(g[e]) * u[e];
    store_piece<W>(y + row * columns + piece * W, to_piece<T>(g));
  }
};

template <class T, int W>
struct SwigluBackward {
  T* d_up;
  const T *dy, *up;
  int64_t columns;  // of dy
  struct Held {
    Piece<T, W> dy, gate, up;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const T* at = up + row * 2 * columns + piece * W;
    return {load_piece<W>(dy + row * columns + piece * W), load_piece<W>(at),
            load_piece<W>(at + columns)};
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    float d[W], g[W], u[W];
    to_floats(h.dy, d);
    to_floats(h.gate, g);
    to_floats(h.up, u);
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float s = logistic<T>(g[e]), value = u[e];
      u[e] = d[e] * g[e] * s;
      g[e] = d[e] * value * s * fmaf(g[e], 1.0f - s, 1.0f);
    }
    T* to = d_up + row * 2 * columns + piece * W;
    store_piece<W>(to, to_piece<T>(g));
    store_piece<W>(to + columns, to_piece<T>(u));
  }
};

template <class T, int W>
void forward(Activation kind, T* y, T* up, const T* bias, int64_t rows, int64_t columns,
             Stream stream) {
  const int64_t width = columns / W;
  switch (kind) {
    case Activation::gelu_tanh:
      pointwise<4>("activation_forward", Forward<GeluTanh, T, W>{y, up, bias, columns}, rows, width,
                   stream);
      break;
    case Activation::gelu:
      pointwise<4>("activation_forward", Forward<Gelu, T, W>{y, up, bias, columns}, rows, width,
                   stream);
      break;
    case Activation::swiglu:
      pointwise<2>("activation_forward", SwigluForward<T, W>{y, up, bias, columns}, rows, width,
                   stream);
      break;
  }
}

template <class T, int W>
void backward(Activation kind, T* d_up, const T* dy, const T* up, int64_t rows, int64_t columns,
              Stream stream) {
  const int64_t width = columns / W;
  switch (kind) {
    case Activation::gelu_tanh:
      pointwise<4>("activation_backward", Backward<GeluTanh, T, W>{d_up, dy, up, columns}, rows,
                   width, stream);
      break;
    case Activation::gelu:
      pointwise<4>("activation_backward", Backward<Gelu, T, W>{d_up, dy, up, columns}, rows, width,
                   stream);
      break;
    case Activation::swiglu:
      pointwise<2>("activation_backward", SwigluBackward<T, W>{d_up, dy, up, columns}, rows, width,
                   stream);
      break;
  }
}

template <class T, int W>
void backward_with_bias(Activation kind, T* d_up, float* db, const T* dy, const T* up, int64_t rows,
                        int64_t columns, float* scratch, Stream stream) {
  constexpr int kAhead = 4, kBlocks = 3;  // rows under way, 80 registers a thread
  const auto start = [&](auto body) {
    add_row_sums<W, kAhead, kBlocks>("activation_backward", "bias_gradient_sum", body, db, rows,
                                     columns, scratch, stream);
  };
  if (kind == Activation::gelu)
    start(Backward<Gelu, T, W>{d_up, dy, up, columns});
  else
    start(Backward<GeluTanh, T, W>{d_up, dy, up, columns});
}

}  // namespace

template <class T>
void activation_forward(Activation kind, T* y, T* up, const T* bias, int64_t rows, int64_t columns,
                        Stream stream) {
  if (rows == 0 || columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, y, up, bias))
    forward<T, W>(kind, y, up, bias, rows, columns, stream);
  else
    forward<T, 1>(kind, y, up, bias, rows, columns, stream);
}

template <class T>
void activation_backward(Activation kind, T* d_up, const T* dy, const T* up, int64_t rows,
                         int64_t columns, Stream stream) {
  if (rows == 0 || columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, d_up, dy, up))
    backward<T, W>(kind, d_up, dy, up, rows, columns, stream);
  else
    backward<T, 1>(kind, d_up, dy, up, rows, columns, stream);
}

template <class T>
void activation_and_bias_backward(Activation kind, T* d_up, float* db, const T* dy, const T* up,
                                  int64_t rows, int64_t columns, float* scratch, Stream stream) {
  ESPALIER_REQUIRE(kind != Activation::swiglu, "the bias gradient of a gated activation");
  if (rows == 0 || columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, d_up, dy, up))
    backward_with_bias<T, W>(kind, d_up, db, dy, up, rows, columns, scratch, stream);
  else
    backward_with_bias<T, 1>(kind, d_up, db, dy, up, rows, columns, scratch, stream);
}

#define ESPALIER_INSTANTIATE(T)                                                                \
  template void activation_forward<T>(Activation, T*, T*, const T*, int64_t, int64_t, Stream); \
  template void activation_backward<T>(Activation, T*, const T*, const T*, int64_t, int64_t,   \
                                       Stream);                                                \
  template void activation_and_bias_backward<T>(Activation, T*, float*, const T*, const T*,    \
                                                int64_t, int64_t, float*, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
