// SPDX-License-Identifier: Apache-2.0
// Backward attention, gradient of the queries. A block owns a tile of queries of one head, as
// forward does; weights and their gradients are formed again tile by tile and stay in registers.
#pragma once

#include "cuda/attention_backward.cuh"
#include "cuda/attention_queries.cuh"

namespace espalier::cuda::attention {

/// Scores, their gradients and the sum together leave registers for few keys at a time.
template <int kDim>
struct QueryGradientShape {
  static constexpr int kM = kDim == 256 ? 1 : 2;
  static constexpr int kWarps = kDim == 256 ? 8 : 4;
  static constexpr int kKeys = kDim == 64 ? 64 : kDim == 256 ? 16 : 32;
  static constexpr int kBlocks = kDim == 256 ? 1 : 2;  // a multiprocessor
  static constexpr int kRows = 16 * kM * kWarps;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr size_t kSharedBytes = 2 * (2 * kRows + 4 * kKeys) * kDim +
                                         sizeof(QueryPlan<uint16_t, kRows>) +
                                         kRows * sizeof(float2);
};

template <class T, int kDim>
__global__ void __launch_bounds__(QueryGradientShape<kDim>::kThreads,
                                  QueryGradientShape<kDim>::kBlocks)
    query_gradients_kernel(const AttentionBackward<T> call, const BackwardScratch scratch,
                           const BlockOrder order) {
  using Shape = QueryGradientShape<kDim>;
  constexpr int kM = Shape::kM, kKeys = Shape::kKeys, kRows = Shape::kRows;
  constexpr int kTile = kKeys * kDim;
  T* const queries = shared_memory<T>();
  T* const d_outs = queries + kRows * kDim;
  T* const stages = d_outs + kRows * kDim;  // [2] of keys, values
  auto* const plan = reinterpret_cast<QueryPlan<T, kRows>*>(stages + 4 * kTile);
  auto* const rows = reinterpret_cast<float2*>(plan + 1);  // log_sum, dot of the queries

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
  // Zeros where it is not there: no branch then parts the copies from the products beside them.
  const auto copy_keys_and_values = [&](int tile, bool is_there, int my_thread) {
    const TileCopy<kKeys, kDim, Shape::kThreads> copy(my_thread);
    const int64_t key = static_cast<int64_t>(tile) * kKeys;
    const int there = is_there ? length - tile * kKeys : 0;
    T* const stage = stages + (tile % 2) * 2 * kTile;
    copy.start(stage, plan->keys + key * call.k.stride, call.k.stride, there);
    copy.start(stage + kTile, plan->values + key * call.v.stride, call.v.stride, there);
    commit_copies();
  };
  const int64_t token = work.token + first;
  const TileCopy<kRows, kDim, Shape::kThreads> copy_rows(thread);
  copy_rows.start(queries, call.q.data + token * call.q.stride + work.head * kDim, call.q.stride,
                  valid);
  copy_rows.start(d_outs, call.d_out.data + token * call.d_out.stride + work.head * kDim,
                  call.d_out.stride, valid);
  if (thread < kRows) {
    const int64_t from = (work.sequence * call.heads + work.head) * scratch.padded + first + thread;
    rows[thread] = make_float2(scratch.log_sum[from], scratch.dots[from]);
  }
  const StartRange seen =
      read_starts<kRows, Shape::kWarps>(plan, call.document_start + token, valid, thread);
  const int first_tile = seen.least / kKeys, last_tile = (first + valid - 1) / kKeys;
  copy_keys_and_values(first_tile, true, thread);

  float sums[kM][kDim / 8][4] = {};
  const float scale = call.scale * kLog2E;

#pragma unroll 1
  for (int tile = first_tile; tile <= last_tile; ++tile) {
    wait_for_copies<0>();
    __syncthreads();  // this tile is there, and nobody reads the one before it any more
    const int me = thread_index_anew(), lane = me % kWarp, warp_row = me / kWarp * 16 * kM;
    const int first_key = tile * kKeys;
    if (first_key > first + warp_row + 16 * kM - 1) {  // the whole warp lies before it
      copy_keys_and_values(tile + 1, tile < last_tile, me);
      continue;
    }
    const T* const stage = stages + (tile % 2) * 2 * kTile;
    const LaneAddress<kDim> a_lane = rows_of_a<kDim>(lane), b_lane = columns_of_b<kDim>(lane);
    float scores[kM][kKeys / 8][4] = {}, gradients[kM][kKeys / 8][4] = {};
    multiply_rows<kDim, kM, kKeys / 16>(scores, LeftRows<kDim, kM, T>(queries, warp_row, a_lane),
                                        stage, b_lane, [&](int k) {
                                          if (k == 0)
                                            copy_keys_and_values(tile + 1, tile < last_tile, me);
                                        });
    if (first_key + kKeys - 1 > first + warp_row || first_key < seen.greatest)
      mask_scores(scores, plan->starts, warp_row + lane / 4, first, first_key + 2 * (lane % 4));
    multiply_rows<kDim, kM, kKeys / 16>(gradients, d_outs, warp_row, a_lane, stage + kTile, b_lane);
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 row = rows[warp_row + lane / 4 + 16 * m + 8 * half];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i)
            gradients[m][n][i] = exp2_approximate(fmaf(scores[m][n][i], scale, -row.x)) *
                                 (gradients[m][n][i] - row.y);
      }
    add_weighted_rows<kDim, kM, kKeys / 16>(sums, gradients, stage, a_lane);
  }
  wait_for_copies<0>();  // the zeros behind the last tile

  const int me = thread_index_anew(), warp_row = me / kWarp * 16 * kM;
  const BlockWork place = work_of(order, block_index_anew(), heads, length);
  const int row0 = (order.tiles - 1 - place.rank) * kRows + warp_row;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = call.scale;
  store_rows<kDim, kM>(call.dq.data + (place.token + row0) * call.dq.stride + place.head * kDim,
                       call.dq.stride, length - row0, queries + warp_row * kDim, sums, factor,
                       me % kWarp);
}

template <class T, int kDim>
void launch_query_gradients(const AttentionBackward<T>& call, const BackwardScratch& scratch,
                            Stream stream) {
  using Shape = QueryGradientShape<kDim>;
  const BlockOrder order =
      order_blocks(blocks_for(call.length, Shape::kRows), call.sequences, call.heads,
                   call.heads / call.kv_heads, 4 * call.length * kDim);
  launch("attention backward: queries", query_gradients_kernel<T, kDim>, grid_of(order),
         dim3(Shape::kThreads), Shape::kSharedBytes, stream, call, scratch, order);
}

template <class T>
void run_query_gradients(const AttentionBackward<T>& call, const BackwardScratch& scratch,
                         Stream stream) {
  switch (call.head_dim) {
    case 64: return launch_query_gradients<T, 64>(call, scratch, stream);
    case 96: return launch_query_gradients<T, 96>(call, scratch, stream);
    case 128: return launch_query_gradients<T, 128>(call, scratch, stream);
    default: return launch_query_gradients<T, 256>(call, scratch, stream);
  }
}

}  // namespace espalier::cuda::attention
