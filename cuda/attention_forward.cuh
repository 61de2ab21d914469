// SPDX-License-Identifier: Apache-2.0
// Forward attention. A block owns a tile of queries of one head and walks over the tiles of keys
// that they see, from the left; the softmax is kept running (FlashAttention-2, arXiv:2307.08691).
#pragma once

#include "cuda/attention_queries.cuh"

namespace espalier::cuda::attention {

/// kM: blocks of 16 queries a warp holds. A fragment of keys or values serves all of them, and at
/// kM = 1 shared memory could not feed the tensor cores; 256 channels leave no registers for more.
template <int kDim>
struct ForwardShape {
  static constexpr int kM = kDim == 256 ? 1 : 2;
  static constexpr int kWarps = kDim == 256 ? 8 : 4;
  static constexpr int kKeys = kDim == 256 ? 32 : kDim == 64 ? 128 : 64;
  static constexpr int kBlocks = kDim == 256 ? 1 : 2;  // a multiprocessor
  static constexpr int kRows = 16 * kM * kWarps;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr size_t kSharedBytes =
      2 * (kRows + 4 * kKeys) * kDim + sizeof(QueryPlan<uint16_t, kRows>);
};

/// Running softmax of the rows that a thread shares with three others: greatest score times
/// scale log2(e), and this thread's part of the denominator.
template <int kM>
struct RunningSoftmax {
  float greatest[kM][2];
  float denominator[kM][2];
};

/// Scores become weights; sums [.., kDim] shrink to the new greatest scores.
template <int kM, int kN, int kSums>
__device__ __forceinline__ void update_softmax(RunningSoftmax<kM>& state,
                                               float (&scores)[kM][kN][4],
                                               float (&sums)[kM][kSums][4], float scale) {
  float shrink[kM][2];
  bool changed = false;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float top = -kInfinity;
#pragma unroll
      for (int n = 0; n < kN; ++n)
        top = fmaxf(top, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kFullWarp, top, 2));
      const float before = state.greatest[m][half];
      const float greatest = fmaxf(before, top * scale);
      changed |= greatest != before;
      // Rows that have seen no key keep weights of exactly 0 instead of inf - inf.
      const float base = greatest == -kInfinity ? 0.0f : greatest;
      shrink[m][half] = exp2_approximate(before - base);
      float sum = 0.0f;
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[m][n][i] = exp2_approximate(fmaf(scores[m][n][i], scale, -base));
          sum += scores[m][n][i];
        }
      state.greatest[m][half] = greatest;
      state.denominator[m][half] = fmaf(state.denominator[m][half], shrink[m][half], sum);
    }
  // An unchanged row's factor is exactly 1, so leaving it out changes no bit.
  if (!__any_sync(kFullWarp, changed)) return;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kSums; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] *= shrink[m][i / 2];
}

/// Output rows, through the space of the block's queries, and log_sum.
template <class T, int kDim, int kM>
__device__ __forceinline__ void store_results(const AttentionForward<T>& call,
                                              const BlockOrder& order, T* queries,
                                              const RunningSoftmax<kM>& softmax,
                                              const float (&sums)[kM][kDim / 8][4]) {
  constexpr int kRows = ForwardShape<kDim>::kRows;
  const int thread = thread_index_anew(), lane = thread % kWarp;
  const int warp_row = thread / kWarp * 16 * kM;
  const int length = static_cast<int>(call.length);
  const BlockWork work = work_of(order, block_index_anew(), static_cast<int>(call.heads), length);
  const int first = (order.tiles - 1 - work.rank) * kRows + warp_row;
  const int valid = length - first;
  const int64_t token = work.token + first;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = softmax.denominator[m][half];
      sum += __shfl_xor_sync(kFullWarp, sum, 1);
      sum += __shfl_xor_sync(kFullWarp, sum, 2);
      factor[m][half] = 1.0f / sum;
      const int row = lane / 4 + 16 * m + 8 * half;
      if (lane % 4 == 0 && row < valid)
        call.log_sum.data[(token + row) * call.log_sum.stride + work.head] =
            softmax.greatest[m][half] * kLn2 + logf(sum);
    }
  store_rows<kDim, kM>(call.out.data + token * call.out.stride + work.head * kDim, call.out.stride,
                       valid, queries + warp_row * kDim, sums, factor, lane);
}

template <class T, int kDim>
__global__ void __launch_bounds__(ForwardShape<kDim>::kThreads, ForwardShape<kDim>::kBlocks)
    forward_kernel(const AttentionForward<T> call, const BlockOrder order) {
  using Shape = ForwardShape<kDim>;
  constexpr int kM = Shape::kM, kKeys = Shape::kKeys, kRows = Shape::kRows;
  constexpr int kTile = kKeys * kDim;
  T* const queries = shared_memory<T>();
  T* const stages = queries + kRows * kDim;  // [2] of keys, values
  auto* const plan = reinterpret_cast<QueryPlan<T, kRows>*>(stages + 4 * kTile);

  const int thread = static_cast<int>(threadIdx.x);
  const int length = static_cast<int>(call.length), heads = static_cast<int>(call.heads);
  const BlockWork work = work_of(order, static_cast<int>(blockIdx.x), heads, length);
  const int first = (order.tiles - 1 - work.rank) * kRows;  // the last tile sees most keys
  const int valid = length - first < kRows ? length - first : kRows;

  if (thread == 0) {
    const int channel = work.head / (heads / static_cast<int>(call.kv_heads)) * kDim;
    plan->keys = call.k.data + work.token * call.k.stride + channel;
    plan->values = call.v.data + work.token * call.v.stride + channel;
  }
  const auto copy_keys_and_values = [&](int tile, int my_thread) {
    const TileCopy<kKeys, kDim, Shape::kThreads> copy(my_thread);
    const int64_t key = static_cast<int64_t>(tile) * kKeys;
    const int there = length - tile * kKeys;
    T* const stage = stages + (tile % 2) * 2 * kTile;
    copy.start(stage, plan->keys + key * call.k.stride, call.k.stride, there);
    copy.start(stage + kTile, plan->values + key * call.v.stride, call.v.stride, there);
    commit_copies();
  };
  TileCopy<kRows, kDim, Shape::kThreads>(thread).start(
      queries, call.q.data + (work.token + first) * call.q.stride + work.head * kDim, call.q.stride,
      valid);
  const StartRange seen = read_starts<kRows, Shape::kWarps>(
      plan, call.document_start + work.token + first, valid, thread);
  const int first_tile = seen.least / kKeys, last_tile = (first + valid - 1) / kKeys;
  copy_keys_and_values(first_tile, thread);

  const float scale = call.scale * kLog2E;
  RunningSoftmax<kM> softmax;
  float sums[kM][kDim / 8][4];
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      softmax.greatest[m][half] = -kInfinity;
      softmax.denominator[m][half] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
  }

#pragma unroll 1
  for (int tile = first_tile; tile <= last_tile; ++tile) {
    wait_for_copies<0>();
    __syncthreads();  // this tile is there, and nobody reads the one before it any more
    const int me = thread_index_anew(), lane = me % kWarp, warp_row = me / kWarp * 16 * kM;
    if (tile < last_tile) copy_keys_and_values(tile + 1, me);
    const int first_key = tile * kKeys;
    if (first_key > first + warp_row + 16 * kM - 1) continue;  // the whole warp lies before it
    const T* const stage = stages + (tile % 2) * 2 * kTile;
    const LaneAddress<kDim> a_lane = rows_of_a<kDim>(lane), b_lane = columns_of_b<kDim>(lane);
    float scores[kM][kKeys / 8][4] = {};
    multiply_rows<kDim, kM, kKeys / 16>(scores, queries, warp_row, a_lane, stage, b_lane);
    if (first_key + kKeys - 1 > first + warp_row || first_key < seen.greatest)
      mask_scores(scores, plan->starts, warp_row + lane / 4, first, first_key + 2 * (lane % 4));
    update_softmax(softmax, scores, sums, scale);
    add_weighted_rows<kDim, kM, kKeys / 16>(sums, scores, stage + kTile, a_lane);
  }

  store_results<T, kDim>(call, order, queries, softmax, sums);
}

template <class T, int kDim>
void run_forward(const AttentionForward<T>& call, Stream stream) {
  using Shape = ForwardShape<kDim>;
  const BlockOrder order =
      order_blocks(blocks_for(call.length, Shape::kRows), call.sequences, call.heads,
                   call.heads / call.kv_heads, 4 * call.length * kDim);
  launch("attention forward", forward_kernel<T, kDim>, grid_of(order), dim3(Shape::kThreads),
         Shape::kSharedBytes, stream, call, order);
}

}  // namespace espalier::cuda::attention

namespace espalier::cuda {

template <class T>
bool can_run(const AttentionForward<T>& call) {
  return attention::has_known_shape(call) && attention::is_aligned(call.out);
}

template <class T>
void attention_forward(const AttentionForward<T>& call, Stream stream) {
  if (!can_run(call)) fail("attention forward", "a shape outside can_run()");
  switch (call.head_dim) {
    case 64: return attention::run_forward<T, 64>(call, stream);
    case 96: return attention::run_forward<T, 96>(call, stream);
    case 128: return attention::run_forward<T, 128>(call, stream);
    default: return attention::run_forward<T, 256>(call, stream);
  }
}

}  // namespace espalier::cuda
