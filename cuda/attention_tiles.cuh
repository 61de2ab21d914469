// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: swizzled tiles in shared memory, fragments for the tensor
// cores, and which block does what.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/attention.hpp"
#include "cuda/primitives.cuh"

namespace espalier::cuda::attention {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_huge_valf();

/// A tile [rows, kDim] of 16-bit values in shared memory. Its 16-byte chunks are permuted within a
/// row by an exclusive or with the row, so that the eight rows of a matrix load, and the lanes of
/// a row-wise store, meet all 32 banks.
template <int kDim>
struct Tile {
  static_assert(kDim % 64 == 0 || kDim == 96, "a row must fill whole swizzle periods");
  static constexpr int kChunks = kDim / 8;
  static constexpr int kPeriod = kDim == 96 ? 4 : 8;  // chunks that change places
  // Rows of 192 bytes start at bank 0 and 16 in turn, so pairs of rows share a permutation.
  __device__ static int swizzle(int row) { return kDim == 96 ? (row >> 1) & 3 : row & 7; }
  __device__ static int offset(int row, int chunk) {
    return row * kDim + (chunk ^ swizzle(row)) * 8;
  }
};

/// A lane's place in the matrix loads of 16 x 16 blocks: `row` (0 ... 15) and `half` (columns 0-7
/// or 8-15) of the row it names. at(tile, row0, k) is its address in the block at row row0 (a
/// multiple of 8), columns 16 k. With constant row0 and k only kPeriod / 2 different sums arise,
/// each one exclusive or away; the rest are immediates.
template <int kDim>
class LaneAddress {
 public:
  __device__ LaneAddress(int row, int half) : byte_(2 * Tile<kDim>::offset(row, half)) {}
  template <class T>
  __device__ const T* at(const T* tile, int row0, int k) const {
    constexpr int kSteps = Tile<kDim>::kPeriod / 2;
    // A row begins at a multiple of 32 kSteps bytes, so this permutes chunks of the row alone.
    const auto* bytes = reinterpret_cast<const unsigned char*>(tile) + (byte_ ^ (k % kSteps) * 32);
    return reinterpret_cast<const T*>(bytes) + (row0 * kDim + (k / kSteps) * kSteps * 16);
  }

 private:
  int byte_;
};

/// For A fragments, rows r of the tile being rows of A, and for B fragments by transposed loads,
/// rows being k: r[0], r[1] are the first 8 columns of B, r[2], r[3] the others.
template <int kDim>
__device__ LaneAddress<kDim> rows_of_a(int lane) {
  return {lane % 16, lane / 16};
}
/// For B fragments by plain loads, rows of the tile being columns of B.
template <int kDim>
__device__ LaneAddress<kDim> columns_of_b(int lane) {
  return {lane % 8 + (lane / 16) * 8, (lane / 8) % 2};
}

/// A thread's share in copying tiles of kRows rows from global memory: one chunk of every
/// kThreads / kLanes-th row, and those whole swizzle periods further on in the same row.
template <int kRows, int kDim, int kThreads>
class TileCopy {
 public:
  __device__ explicit TileCopy(int thread) : row_(thread / kLanes), chunk_(thread % kLanes) {}
  /// Starts the copy of rows from[0 ... valid) to the tile, the rest of which becomes zero.
  template <class T>
  __device__ __forceinline__ void start(T* tile, const T* from, int64_t stride, int valid) const {
    tile += Tile<kDim>::offset(row_, chunk_);
    from += row_ * stride + chunk_ * 8;
#pragma unroll
    for (int pass = 0; pass < kRows / kStep; ++pass) {
      const bool is_valid = row_ + pass * kStep < valid;
#pragma unroll
      for (int column = 0; column < kDim; column += kLanes * 8)
        copy_async_16(tile + pass * kStep * kDim + column, from + column, is_valid);
      from += kStep * stride;
    }
  }

 private:
  static constexpr int kPeriod = Tile<kDim>::kPeriod;
  static constexpr int kLanes = kThreads / kPeriod > kRows ? kThreads / kRows : kPeriod;
  static constexpr int kStep = kThreads / kLanes;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0, "every pass must meet the same permutation");
  int row_, chunk_;
};

/// The A fragments of a warp, [kM * 16, 16] at channel 16 k, loaded where they are asked for.
template <int kDim, int kM, class T>
class LeftRows {
 public:
  /// Rows of the tile from row `row`.
  __device__ LeftRows(const T* tile, int row, LaneAddress<kDim> lane)
      : from_(tile + row * kDim), lane_(lane) {}
  __device__ __forceinline__ void get(uint32_t (&left)[kM][4], int k) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrices(left[m], lane_.at(from_, 16 * m, k));
  }

 private:
  const T* from_;
  LaneAddress<kDim> lane_;
};
/// The same, held in registers.
template <int kDim, int kM>
class ResidentRows {
 public:
  template <class T>
  __device__ __forceinline__ void load(const LeftRows<kDim, kM, T>& from) {
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) from.get(rows_[k], k);
  }
  __device__ __forceinline__ void get(uint32_t (&left)[kM][4], int k) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) left[m][i] = rows_[k][m][i];
  }

 private:
  uint32_t rows_[kDim / 16][kM][4];
};

/// scores [kM * 16, kN * 16] of a warp += A B^T, B = rows of tile b from row 0, over kDim channels.
/// Fragment layout of mma_16x8x16. beside(k) is what else is to be done while the products of step
/// k = 0 ... kDim / 16 - 1 run.
template <int kDim, int kM, int kN, class Left, class T, class Beside>
__device__ __forceinline__ void multiply_rows(float (&scores)[kM][2 * kN][4], const Left& a,
                                              const T* b, LaneAddress<kDim> b_lane,
                                              const Beside& beside) {
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    uint32_t left[kM][4];
    a.get(left, k);
#pragma unroll
    for (int n = 0; n < kN; ++n) {
      uint32_t right[4];
      load_matrices(right, b_lane.at(b, 16 * n, k));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma_16x8x16<T>(scores[m][2 * n], left[m], right[0], right[1]);
        mma_16x8x16<T>(scores[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
    beside(k);
  }
}
/// The same, A = rows of tile a from row a_row, and nothing beside.
template <int kDim, int kM, int kN, class T>
__device__ __forceinline__ void multiply_rows(float (&scores)[kM][2 * kN][4], const T* a, int a_row,
                                              LaneAddress<kDim> a_lane, const T* b,
                                              LaneAddress<kDim> b_lane) {
  multiply_rows<kDim, kM, kN>(scores, LeftRows<kDim, kM, T>(a, a_row, a_lane), b, b_lane,
                              [](int) {});
}

/// sums [kM * 16, kDim] of a warp += A B, A = fragments [kM * 16, 16], B = rows row0 ... row0 + 15
/// of tile b.
template <int kDim, int kM, class T>
__device__ __forceinline__ void add_rows(float (&sums)[kM][kDim / 8][4],
                                         const uint32_t (&left)[kM][4], const T* b, int row0,
                                         LaneAddress<kDim> b_lane) {
#pragma unroll
  for (int d = 0; d < kDim / 16; ++d) {
    uint32_t right[4];
    load_matrices_transposed(right, b_lane.at(b, row0, d));
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      mma_16x8x16<T>(sums[m][2 * d], left[m], right[0], right[1]);
      mma_16x8x16<T>(sums[m][2 * d + 1], left[m], right[2], right[3]);
    }
  }
}

/// sums [kM * 16, kDim] of a warp += A B, A = weights [kM * 16, kN * 16] in the layout of scores,
/// rounded to T; B = rows 0 ... 16 kN of tile b.
template <int kDim, int kM, int kN, class T>
__device__ __forceinline__ void add_weighted_rows(float (&sums)[kM][kDim / 8][4],
                                                  const float (&weights)[kM][2 * kN][4], const T* b,
                                                  LaneAddress<kDim> b_lane) {
#pragma unroll
  for (int k = 0; k < kN; ++k) {
    uint32_t left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = weights[m][2 * k + i / 2] + 2 * (i % 2);
        left[m][i] = pack2<T>(pair[0], pair[1]);
      }
    add_rows<kDim, kM>(sums, left, b, 16 * k, b_lane);
  }
}

/// A warp writes its sums, row r times factor[r], to rows to[0 ... valid) of global memory through
/// its own rows of a tile, which no other warp reads: 16 bytes a store, whole rows together.
template <int kDim, int kM, class T>
__device__ __forceinline__ void store_rows(T* to, int64_t stride, int valid, T* tile,
                                           const float (&sums)[kM][kDim / 8][4],
                                           const float (&factor)[kM][2], int lane) {
  const int row0 = lane / 4, column = 2 * (lane % 4);
  __syncwarp();
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * m + 8 * half + row0;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const float* pair = sums[m][n] + 2 * half;
        *reinterpret_cast<uint32_t*>(tile + Tile<kDim>::offset(row, n) + column) =
            pack2<T>(pair[0] * factor[m][half], pair[1] * factor[m][half]);
      }
    }
  __syncwarp();
  constexpr int kChunks = Tile<kDim>::kChunks;
#pragma unroll 4
  for (int n = lane; n < kM * 16 * kChunks; n += kWarp) {
    const int row = n / kChunks, chunk = n % kChunks;
    if (row >= valid) break;
    store_vector(to + row * stride + chunk * 8, load_vector(tile + Tile<kDim>::offset(row, chunk)));
  }
}

/// Least and greatest document start of some queries.
struct StartRange {
  int32_t least, greatest;
};
constexpr StartRange kNoStarts = {INT32_MAX, INT32_MIN};
__device__ __forceinline__ StartRange warp_range(StartRange range) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int32_t least = __shfl_xor_sync(kFullWarp, range.least, step);
    const int32_t greatest = __shfl_xor_sync(kFullWarp, range.greatest, step);
    range.least = least < range.least ? least : range.least;
    range.greatest = greatest > range.greatest ? greatest : range.greatest;
  }
  return range;
}

/// Blocks in the order in which the device starts them. The pairs (sequence, head) are taken in
/// groups whose keys and values stay in the second-level cache together; in a group the tiles with
/// most work come first, for all of its pairs.
struct BlockOrder {
  int tiles = 0, pairs = 0, group = 1;
};
inline BlockOrder order_blocks(int64_t tiles, int64_t sequences, int64_t heads,
                               int64_t heads_a_stream, int64_t stream_bytes) {
  constexpr int64_t kCacheBytes = 16 << 20;  // of 40 MiB (A100) and 50 MiB (H100, H200)
  const int64_t streams = std::max<int64_t>(1, kCacheBytes / std::max<int64_t>(1, stream_bytes));
  const int64_t pairs = sequences * heads;
  BlockOrder order;
  order.tiles = static_cast<int>(tiles);
  order.pairs = static_cast<int>(pairs);
  order.group = static_cast<int>(std::max<int64_t>(1, std::min(pairs, streams * heads_a_stream)));
  return order;
}
inline dim3 grid_of(const BlockOrder& order) {
  return dim3(static_cast<unsigned>(order.tiles) * static_cast<unsigned>(order.pairs));
}
/// The work of a block. `rank` 0 is the heaviest tile; token: the first one of the sequence.
struct BlockWork {
  int rank, head, sequence;
  int64_t token;
};
__device__ __forceinline__ BlockWork work_of(const BlockOrder& order, int block, int heads,
                                             int64_t length) {
  const int group_blocks = order.group * order.tiles;
  const int group = block / group_blocks;
  const int first = group * order.group, in_group = block - first * order.tiles;
  const int rest = order.pairs - first, size = rest < order.group ? rest : order.group;
  const int pair = first + in_group % size;
  return {in_group / size, pair % heads, pair / heads, pair / heads * length};
}

/// Whether rows of T can be moved 16 bytes at a time.
template <class T>
bool is_aligned(const AttentionRows<T>& rows) {
  return reinterpret_cast<uintptr_t>(rows.data) % 16 == 0 && rows.stride % 8 == 0;
}
/// What forward and backward calls have in common.
template <class Call>
bool has_known_shape(const Call& call) {
  const bool dim =
      call.head_dim == 64 || call.head_dim == 96 || call.head_dim == 128 || call.head_dim == 256;
  // Positions and block numbers are 32-bit; a scale of 0 or less would turn the maximum around.
  const bool sizes = call.length <= INT32_MAX - 256 &&
                     (call.length / 32 + 1) * call.sequences * call.heads <= INT32_MAX;
  return dim && sizes && call.kv_heads > 0 && call.heads % call.kv_heads == 0 &&
         call.scale > 0.0f && call.scale < kInfinity && is_aligned(call.q) && is_aligned(call.k) &&
         is_aligned(call.v);
}

}  // namespace espalier::cuda::attention
