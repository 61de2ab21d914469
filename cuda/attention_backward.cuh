// SPDX-License-Identifier: Apache-2.0
// What the kernels of backward attention hand to each other, and the first of them.
#pragma once

#include "cuda/attention_tiles.cuh"

namespace espalier::cuda::attention {

/// Parts of AttentionBackward::scratch. `padded` is the length rounded up so that every tile of
/// queries is whole; queries beyond the length have weight exp2(-inf) = 0 and dot 0.
struct BackwardScratch {
  static constexpr int kRangeQueries = 32;
  float* log_sum;      // [sequences, heads, padded], base 2
  float* dots;         // [sequences, heads, padded], d_out . out
  StartRange* ranges;  // [sequences, padded / kRangeQueries]
  int padded;
};
inline BackwardScratch split_scratch(float* scratch, int64_t sequences, int64_t length,
                                     int64_t heads) {
  const int64_t padded = blocks_for(length, 128) * 128, rows = sequences * heads * padded;
  return {scratch, scratch + rows, reinterpret_cast<StartRange*>(scratch + 2 * rows),
          static_cast<int>(padded)};
}

/// d_q of the query tiles, d_k and d_v of the key tiles; each in a file of its own, so that they
/// compile side by side.
template <class T>
void run_query_gradients(const AttentionBackward<T>& call, const BackwardScratch& scratch,
                         Stream stream);
template <class T>
void run_key_gradients(const AttentionBackward<T>& call, const BackwardScratch& scratch,
                       Stream stream);

constexpr int kPrepareThreads = 256;

/// Fills the scratch. A block takes kRangeQueries positions of one sequence, all heads; kLanes
/// threads share a row of 8 channels each.
template <class T, int kDim>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const AttentionBackward<T> call, const BackwardScratch scratch) {
  constexpr int kLanes = kDim <= 64 ? 8 : kDim <= 128 ? 16 : 32;
  constexpr int kQueries = BackwardScratch::kRangeQueries;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const int heads = static_cast<int>(call.heads), length = static_cast<int>(call.length);
  const int tiles = scratch.padded / kQueries;
  const int tile = static_cast<int>(blockIdx.x) % tiles;
  const int64_t sequence = blockIdx.x / static_cast<unsigned>(tiles);
  const int first = tile * kQueries;
  // 32 heads rows are a whole number of rows a warp, so that its lanes end the loop together.
  for (int n = thread / kLanes; n < kQueries * heads; n += kPrepareThreads / kLanes) {
    const int head = n % heads, query = first + n / heads;
    const int64_t token = sequence * length + query;
    const bool there = query < length;
    float sum = 0.0f;
    if (there && lane * 8 < kDim) {
      const int channel = head * kDim + lane * 8;
      const Vector<T> o = load_vector(call.out.data + token * call.out.stride + channel);
      const Vector<T> g = load_vector(call.d_out.data + token * call.d_out.stride + channel);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        sum = fmaf(static_cast<float>(o.at[i]), static_cast<float>(g.at[i]), sum);
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kFullWarp, sum, step);
    if (lane != 0) continue;
    const int64_t to = (sequence * heads + head) * scratch.padded + query;
    scratch.dots[to] = sum;
    scratch.log_sum[to] =
        there ? call.log_sum.data[token * call.log_sum.stride + head] * kLog2E : kInfinity;
  }
  if (thread < kWarp) {
    StartRange range = kNoStarts;
    if (first + thread < length) {
      const int32_t start = call.document_start[sequence * length + first + thread];
      range = {start, start};
    }
    range = warp_range(range);
    if (thread == 0) scratch.ranges[sequence * tiles + tile] = range;
  }
}

template <class T, int kDim>
void run_prepare(const AttentionBackward<T>& call, const BackwardScratch& scratch, Stream stream) {
  const int64_t blocks = scratch.padded / BackwardScratch::kRangeQueries * call.sequences;
  launch("attention backward: dots", prepare_kernel<T, kDim>, dim3(static_cast<unsigned>(blocks)),
         dim3(kPrepareThreads), 0, stream, call, scratch);
}

}  // namespace espalier::cuda::attention

namespace espalier::cuda {

template <class T>
bool can_run(const AttentionBackward<T>& call) {
  return attention::has_known_shape(call) && attention::is_aligned(call.out) &&
         attention::is_aligned(call.d_out) && attention::is_aligned(call.dq) &&
         attention::is_aligned(call.dk) && attention::is_aligned(call.dv) &&
         reinterpret_cast<uintptr_t>(call.scratch) % 16 == 0;
}

template <class T>
void attention_backward(const AttentionBackward<T>& call, Stream stream) {
  using namespace attention;
  if (!can_run(call)) fail("attention backward", "a shape outside can_run()");
  const BackwardScratch scratch =
      split_scratch(call.scratch, call.sequences, call.length, call.heads);
  switch (call.head_dim) {
    case 64: run_prepare<T, 64>(call, scratch, stream); break;
    case 96: run_prepare<T, 96>(call, scratch, stream); break;
    case 128: run_prepare<T, 128>(call, scratch, stream); break;
    default: run_prepare<T, 256>(call, scratch, stream);
  }
  run_key_gradients(call, scratch, stream);
  run_query_gradients(call, scratch, stream);
}

}  // namespace espalier::cuda
