// SPDX-License-Identifier: Apache-2.0
// Elements as kernels move them: 16 bytes a thread where addresses, strides and columns allow it,
// single elements where not. And the kernel that all elementwise work shares.
#pragma once

#include <cstring>

#include "cuda/primitives.cuh"

namespace espalier::cuda {

/// Elements of T in 16 bytes.
template <class T>
constexpr int kPieceSize = 16 / static_cast<int>(sizeof(T));

/// W elements as they lie in memory, read and written as one word; W * sizeof(T) is 16 or 8 or W is
/// 1. Addresses are multiples of the size.
template <class T, int W>
struct alignas(W * sizeof(T)) Piece {
  T at[W];
};

template <int W, class T>
__device__ __forceinline__ Piece<T, W> load_piece(const T* from) {
  Piece<T, W> p;
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::check_vector_address(from, sizeof(p));
#endif
  if constexpr (sizeof(p) == 16) {
    const uint4 word = *reinterpret_cast<const uint4*>(from);
    memcpy(&p, &word, sizeof(p));
  } else if constexpr (W > 1) {
    static_assert(sizeof(p) == 8, "pieces of 16 or 8 bytes");
    const uint2 word = *reinterpret_cast<const uint2*>(from);
    memcpy(&p, &word, sizeof(p));
  } else {
    p.at[0] = *from;
  }
  return p;
}
template <int W, class T>
__device__ __forceinline__ void store_piece(T* to, const Piece<T, W>& p) {
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::check_vector_address(to, sizeof(p));
#endif
  if constexpr (sizeof(p) == 16) {
    uint4 word;
    memcpy(&word, &p, sizeof(p));
    *reinterpret_cast<uint4*>(to) = word;
  } else if constexpr (W > 1) {
    static_assert(sizeof(p) == 8, "pieces of 16 or 8 bytes");
    uint2 word;
    memcpy(&word, &p, sizeof(p));
    *reinterpret_cast<uint2*>(to) = word;
  } else {
    *to = p.at[0];
  }
}

/// Conversions between a piece and fp32, by the packed instructions where there are pairs.
template <class T, int W>
__device__ __forceinline__ void to_floats(const Piece<T, W>& p, float (&x)[W]) {
  if constexpr (sizeof(T) == 2 && W % 2 == 0) {
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      uint32_t word;
      memcpy(&word, &p.at[i], sizeof(word));
      const float2 pair = unpack2<T>(word);
      x[i] = pair.x;
      x[i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) x[i] = static_cast<float>(p.at[i]);
  }
}
template <class T, int W>
__device__ __forceinline__ Piece<T, W> to_piece(const float (&x)[W]) {
  Piece<T, W> p;
  if constexpr (sizeof(T) == 2 && W % 2 == 0) {
#pragma unroll
    for (int i = 0; i < W; i += 2) {
      const uint32_t word = pack2<T>(x[i], x[i + 1]);
      memcpy(&p.at[i], &word, sizeof(word));
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) p.at[i] = static_cast<T>(x[i]);
  }
  return p;
}

/// The `count` first (all, if it is more) of kPieceSize elements, zeros after them: the form
/// without alignment.
template <class T>
__device__ __forceinline__ Piece<T, kPieceSize<T>> gather_piece(const T* from, int count) {
  Piece<T, kPieceSize<T>> p;
#pragma unroll
  for (int e = 0; e < kPieceSize<T>; ++e) p.at[e] = e < count ? from[e] : static_cast<T>(0.0f);
  return p;
}
template <class T>
__device__ __forceinline__ void scatter_piece(T* to, const Piece<T, kPieceSize<T>>& p, int count) {
#pragma unroll
  for (int e = 0; e < kPieceSize<T>; ++e)
    if (e < count) to[e] = p.at[e];
}

/// The one or the other form, W = kPieceSize<T>.
template <bool kWhole, class T>
__device__ __forceinline__ Piece<T, kPieceSize<T>> fetch_piece(const T* from, int count) {
  if constexpr (kWhole)
    return load_piece<kPieceSize<T>>(from);
  else
    return gather_piece(from, count);
}
template <bool kWhole, class T>
__device__ __forceinline__ void put_piece(T* to, const Piece<T, kPieceSize<T>>& p, int count) {
  if constexpr (kWhole)
    store_piece<kPieceSize<T>>(to, p);
  else
    scatter_piece(to, p, count);
}

/// Whether every one of these addresses (null ones count as fine) is a multiple of `bytes`.
template <class... P>
bool are_aligned(uintptr_t bytes, const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % bytes == 0) && ...);
}

constexpr int kPointwiseBlock = 256;

/// Runs a body over rows of `width` pieces, kEach pieces a thread: all its loads are under way
/// before the first result is formed.
///
/// Body  struct Held; Held load(int64_t row, int64_t piece) const; void finish(const Held&, int64_t
///       row, int64_t piece) const. What finish() writes no other piece may read.
template <class Body, int kEach>
__global__ void __launch_bounds__(kPointwiseBlock)
    pointwise_kernel(Body body, int64_t rows, uint32_t width) {
  // One division in 64 bits a thread, the others in 32.
  const int64_t start = int64_t{blockIdx.x} * (kPointwiseBlock * kEach);
  const int64_t first_row = start / width;
  const uint32_t first = static_cast<uint32_t>(start - first_row * width);
  typename Body::Held held[kEach];
  int64_t row[kEach];
  uint32_t piece[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const uint32_t at = first + threadIdx.x + static_cast<uint32_t>(k * kPointwiseBlock);
    const uint32_t down = at / width;
    row[k] = first_row + down;
    piece[k] = at - down * width;
    if (row[k] < rows) held[k] = body.load(row[k], piece[k]);
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k)
    if (row[k] < rows) body.finish(held[k], row[k], piece[k]);
}

template <int kEach, class Body>
void pointwise(const char* label, const Body& body, int64_t rows, int64_t width, Stream stream) {
  const int64_t blocks = blocks_for(rows * width, kPointwiseBlock * kEach);
  launch(label, pointwise_kernel<Body, kEach>, dim3(static_cast<unsigned>(blocks)),
         dim3(kPointwiseBlock), 0, stream, body, rows, static_cast<uint32_t>(width));
}

}  // namespace espalier::cuda
