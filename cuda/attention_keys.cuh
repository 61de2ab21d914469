// SPDX-License-Identifier: Apache-2.0
// What the kernels share whose blocks own a tile of keys and walk over the queries that see them:
// the query heads of the group in their order, of each its tiles of queries in theirs.
#pragma once

#include "cuda/attention_backward.cuh"

namespace espalier::cuda::attention {

/// One step: a tile of queries of one head. `cuts`: a document of theirs begins behind the block's
/// first key.
struct QueryTile {
  int head, tile;
  bool cuts;
};

/// The steps of a block in their order: the tiles with a query whose document begins at or before
/// last_key. A warp looks at the ranges of 32 tiles at once and takes the steps from two words.
template <int kQueries>
class QuerySteps {
 public:
  /// Of the query heads head ... end_head - 1, the tiles first_tile ... tiles - 1 each.
  __device__ QuerySteps(const StartRange* ranges, int head, int end_head, int first_tile, int tiles,
                        int first_key, int last_key)
      : ranges_(ranges),
        end_head_(end_head),
        first_tile_(first_tile),
        tiles_(tiles),
        first_key_(first_key),
        last_key_(last_key),
        head_(head),
        base_(first_tile - kWarp) {
    look();
  }
  __device__ bool empty() const { return sees_ == 0; }
  /// Takes the next step off. Afterwards empty() may be true too early, until look().
  __device__ QueryTile take() {
    const int which = __ffs(static_cast<int>(sees_)) - 1;
    sees_ &= sees_ - 1;
    return {head_, base_ + which, (cuts_ >> which & 1) != 0};
  }
  /// Looks on where no tile is left of those looked at. All lanes of the warp take part.
  __device__ __forceinline__ void look() {
    while (sees_ == 0) {
      base_ += kWarp;
      if (base_ >= tiles_) {
        if (head_ + 1 >= end_head_) return;
        ++head_;
        base_ = first_tile_;
      }
      const int tile = base_ + thread_index_anew() % kWarp;
      const StartRange range = tile < tiles_ ? range_of(tile) : kNoStarts;
      sees_ = __ballot_sync(kFullWarp, range.least <= last_key_);
      cuts_ = __ballot_sync(kFullWarp, range.greatest > first_key_);
    }
  }

 private:
  __device__ StartRange range_of(int tile) const {
    constexpr int kRanges = kQueries / BackwardScratch::kRangeQueries;
    static_assert(kRanges == 1 || kRanges == 2, "a range or two is one load");
    if constexpr (kRanges == 1) {
      const int2 range = reinterpret_cast<const int2*>(ranges_)[tile];
      return {range.x, range.y};
    } else {
      const int4 pair = reinterpret_cast<const int4*>(ranges_)[tile];
      return {pair.x < pair.z ? pair.x : pair.z, pair.y > pair.w ? pair.y : pair.w};
    }
  }

  const StartRange* ranges_;  // [tiles, kQueries / kRangeQueries]
  int end_head_, first_tile_, tiles_, first_key_, last_key_;
  int head_, base_;               // of the tiles looked at
  unsigned sees_ = 0, cuts_ = 0;  // a bit a tile
};

/// Weights of queries that do not see a key become 0. Rows are keys key0 + 16 m + 8 half, columns
/// queries query0 + 8 n + i; starts: document starts of the sequence.
template <int kM, int kN>
__device__ __forceinline__ void mask_weights(float (&weights)[kM][kN][4], const int32_t* starts,
                                             int key0, int query0, int length) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = query0 + 8 * n + i;
      const int low = query < length ? starts[query] : INT32_MAX;
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = key0 + 16 * m + 8 * half;
          if (key < low || key > query) weights[m][n][2 * half + i] = 0.0f;
        }
    }
}

/// Starts to copy q and d_out [2, kQueries, kDim] and log_sum and dots [2, kQueries] of a step.
/// Where it is not `there`, zeros: no branch then parts the copies from the products beside them.
template <int kQueries, int kDim, int kThreads, class T>
__device__ __forceinline__ void copy_query_tile(const AttentionBackward<T>& call,
                                                const BackwardScratch& scratch,
                                                const BlockWork& work, const QueryTile& step,
                                                bool there, T* to, float* columns, int thread) {
  const TileCopy<kQueries, kDim, kThreads> copy(thread);
  const int query = step.tile * kQueries;
  const int valid = there ? static_cast<int>(call.length) - query : 0;
  const int64_t token = work.token + query;
  copy.start(to, call.q.data + token * call.q.stride + step.head * kDim, call.q.stride, valid);
  copy.start(to + kQueries * kDim, call.d_out.data + token * call.d_out.stride + step.head * kDim,
             call.d_out.stride, valid);
  if (thread < kQueries / 2) {
    const int which = thread / (kQueries / 4), part = thread % (kQueries / 4) * 4;
    const float* const from = which == 0 ? scratch.log_sum : scratch.dots;
    const int64_t row = work.sequence * call.heads + step.head;
    copy_async_16(columns + which * kQueries + part, from + row * scratch.padded + query + part,
                  there);
  }
  commit_copies();
}

}  // namespace espalier::cuda::attention
