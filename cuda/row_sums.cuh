// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, in parts: the first pass. column_sums.cuh adds the parts.
#pragma once

#include <algorithm>

#include "cuda/column_sums.cuh"
#include "cuda/pieces.cuh"

namespace espalier::cuda {

constexpr int kRowSumWarps = 8;
constexpr int64_t kMostParts = 64;

/// Rows of a part; a function of the number of rows alone, like everything else about the order.
inline int64_t part_rows(int64_t rows) {
  return std::max<int64_t>(64, blocks_for(rows, kMostParts));
}

/// Block (part, tile): the sums of W columns a lane over the part's rows, to sums[part]. Warp w
/// adds the rows w, w + kRowSumWarps, ... in order, then the warps are added in order; so W and
/// kAhead, the rows that a thread has under way, change no bit.
///
/// Body  struct Held; Held load(int64_t row, int64_t piece) const; Piece<T, W> finish(const Held&,
///       int64_t row, int64_t piece) const: the elements to add.
template <class Body, int W, int kAhead, int kBlocks>
__global__ void __launch_bounds__(kRowSumWarps* kWarp, kBlocks)
    row_sums_kernel(float* sums, Body body, int64_t rows, int64_t columns, int64_t each) {
  constexpr int kTile = kWarp * W, kThreads = kRowSumWarps * kWarp;
  float* shared = shared_memory<float>();  // [kRowSumWarps, kTile]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t piece = int64_t{blockIdx.y} * kWarp + lane, tile = int64_t{blockIdx.y} * kTile;
  const int64_t first = int64_t{blockIdx.x} * each;
  const int count = static_cast<int>(rows - first < each ? rows - first : each);
  float sum[W] = {};
  if (piece * W < columns) {
    for (int base = warp; base < count; base += kRowSumWarps * kAhead) {
      typename Body::Held ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int row = base + k * kRowSumWarps;
        if (row < count) ahead[k] = body.load(first + row, piece);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int row = base + k * kRowSumWarps;
        if (row < count) {
          float x[W];
          to_floats(body.finish(ahead[k], first + row, piece), x);
#pragma unroll
          for (int e = 0; e < W; ++e) sum[e] += x[e];
        }
      }
    }
  }
  // Lanes side by side in each of the W planes: no bank conflicts.
#pragma unroll
  for (int e = 0; e < W; ++e) shared[warp * kTile + e * kWarp + lane] = sum[e];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
    const int64_t to = tile + (i % kWarp) * W + i / kWarp;
    if (to >= columns) continue;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kRowSumWarps; ++w) total += shared[w * kTile + i];
    sums[int64_t{blockIdx.x} * columns + to] = total;
  }
}

/// target [columns] += the sums of what the body gives, by way of scratch [parts, columns]. With
/// W > 1, columns are a multiple of it.
template <int W, int kAhead, int kBlocks, class Body>
void add_row_sums(const char* label, const char* sum_label, const Body& body, float* target,
                  int64_t rows, int64_t columns, float* scratch, Stream stream) {
  constexpr int64_t kTile = kWarp * W;
  const int64_t each = part_rows(rows), parts = blocks_for(rows, each);
  launch(label, row_sums_kernel<Body, W, kAhead, kBlocks>,
         dim3(static_cast<unsigned>(parts), static_cast<unsigned>(blocks_for(columns, kTile))),
         dim3(kRowSumWarps * kWarp), static_cast<size_t>(kRowSumWarps * kTile) * sizeof(float),
         stream, scratch, body, rows, columns, each);
  add_column_sums(sum_label, target, nullptr, columns, scratch, parts, columns, columns, stream);
}

}  // namespace espalier::cuda
