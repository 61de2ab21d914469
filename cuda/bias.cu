// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: sums over rows, in two passes.
#include <algorithm>

#include "cuda/column_sums.cuh"
#include "cuda/pieces.cuh"
#include "cuda/pointwise.hpp"

namespace espalier::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kAhead = 8;   // rows that a thread has under way
constexpr int kBlocks = 4;  // a multiprocessor: 64 registers a thread
constexpr int64_t kMostParts = 64;

// Rows of a part; a function of the number of rows alone, like everything else about the order.
int64_t part_rows(int64_t rows) {
  return std::max<int64_t>(kWarps * kAhead, blocks_for(rows, kMostParts));
}

/// Block (part, tile): the sums of W columns a lane over the part's rows, to sums[part]. Warp w
/// adds the rows w, w + kWarps, ... in order, then the warps are added in order.
template <class T, int W>
__global__ void __launch_bounds__(kThreads, kBlocks)
    bias_gradient_kernel(float* sums, const T* dy, int64_t rows, int64_t columns, int64_t each) {
  float* shared = shared_memory<float>();  // [kWarps, kWarp * W]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kTile = kWarp * W;
  const int64_t tile = int64_t{blockIdx.y} * kTile, column = tile + lane * W;
  const int64_t first = int64_t{blockIdx.x} * each;
  const int64_t last = first + each < rows ? first + each : rows;
  float sum[W] = {};
  if (column < columns) {
    for (int64_t base = first + warp; base < last; base += kWarps * kAhead) {
      Piece<T, W> ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t row = base + k * kWarps;
        if (row < last) ahead[k] = load_piece<W>(dy + row * columns + column);
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (base + k * kWarps < last) {
          float x[W];
          to_floats(ahead[k], x);
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
    for (int w = 0; w < kWarps; ++w) total += shared[w * kTile + i];
    sums[int64_t{blockIdx.x} * columns + to] = total;
  }
}

}  // namespace

int64_t bias_gradient_scratch(int64_t rows, int64_t columns) {
  return rows == 0 ? 0 : blocks_for(rows, part_rows(rows)) * columns;
}

template <class T>
void bias_gradient(float* db, const T* dy, int64_t rows, int64_t columns, float* scratch,
                   Stream stream) {
  if (rows == 0 || columns == 0) return;
  const int64_t each = part_rows(rows), parts = blocks_for(rows, each);
  const auto sum_parts = [&](auto kernel, int64_t width) {
    const int64_t tile = kWarp * width;
    launch("bias_gradient", kernel,
           dim3(static_cast<unsigned>(parts), static_cast<unsigned>(blocks_for(columns, tile))),
           dim3(kThreads), static_cast<size_t>(kWarps * tile) * sizeof(float), stream, scratch, dy,
           rows, columns, each);
  };
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, dy))
    sum_parts(bias_gradient_kernel<T, W>, W);
  else
    sum_parts(bias_gradient_kernel<T, 1>, 1);
  add_column_sums("bias_gradient_sum", db, nullptr, columns, scratch, parts, columns, columns,
                  stream);
}

#define ESPALIER_INSTANTIATE(T) \
  template void bias_gradient<T>(float*, const T*, int64_t, int64_t, float*, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
