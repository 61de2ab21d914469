// SPDX-License-Identifier: Apache-2.0
// The gradient of a bias: sums over rows, in two passes.
#include "cuda/pointwise.hpp"
#include "cuda/row_sums.cuh"

namespace espalier::cuda {
namespace {

template <class T, int W>
struct Rows {
  const T* dy;
  int64_t columns;
  struct Held {
    Piece<T, W> dy;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    return {load_piece<W>(dy + row * columns + piece * W)};
  }
  __device__ Piece<T, W> finish(const Held& h, int64_t, int64_t) const { return h.dy; }
};

}  // namespace

int64_t bias_gradient_scratch(int64_t rows, int64_t columns) {
  return rows == 0 ? 0 : blocks_for(rows, part_rows(rows)) * columns;
}

template <class T>
void bias_gradient(float* db, const T* dy, int64_t rows, int64_t columns, float* scratch,
                   Stream stream) {
  if (rows == 0 || columns == 0) return;
  constexpr int kAhead = 4, kBlocks = 4;  // rows under way, 64 registers a thread
  const auto add = [&](auto body, auto width) {
    add_row_sums<decltype(width)::value, kAhead, kBlocks>("bias_gradient", "bias_gradient_sum",
                                                          body, db, rows, columns, scratch, stream);
  };
  constexpr int W = kPieceSize<T>;
  if (columns % W == 0 && are_aligned(16, dy))
    add(Rows<T, W>{dy, columns}, std::integral_constant<int, W>());
  else
    add(Rows<T, 1>{dy, columns}, std::integral_constant<int, 1>());
}

#define ESPALIER_INSTANTIATE(T) \
  template void bias_gradient<T>(float*, const T*, int64_t, int64_t, float*, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
