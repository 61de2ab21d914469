// SPDX-License-Identifier: Apache-2.0
// What the norm kernels share.
#pragma once

#include "cuda/norm.hpp"
#include "cuda/pieces.cuh"

namespace espalier::cuda {

/// Row r; r < 2^31, so that the division is one of 32 bits.
template <class T>
__device__ __forceinline__ T* row_of(const NormRows<T>& rows, int64_t r) {
  if (rows.groups == 1) return rows.data + r * rows.outer;
  const uint32_t index = static_cast<uint32_t>(r), groups = static_cast<uint32_t>(rows.groups);
  const uint32_t outer = index / groups;
  return rows.data + int64_t{outer} * rows.outer + int64_t{index - outer * groups} * rows.inner;
}

/// Whether every row starts at a multiple of 16 bytes and ends at one.
template <class T>
bool is_whole(const NormRows<T>& rows) {
  constexpr int W = kPieceSize<T>;
  return are_aligned(16, rows.data) && rows.columns % W == 0 && rows.outer % W == 0 &&
         (rows.groups == 1 || rows.inner % W == 0);
}

/// Sum over teams of `lanes` lanes (a power of two up to 32) that lie side by side in a warp, in
/// every lane the same bits. All lanes of the warp take part.
__device__ __forceinline__ float lanes_sum(float x, int lanes) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    if (step < lanes) x += __shfl_xor_sync(kFullWarp, x, step);
  return x;
}

}  // namespace espalier::cuda
