// SPDX-License-Identifier: Apache-2.0
// Gradients of norms in one pass over dy and x. A block owns a chunk of kNormChunk rows. It copies
// a batch of rows to shared memory while it works on the batch before: teams of lanes form the sums
// over each row, one thread a row the two factors that come of them, then every thread takes
// columns, forms dx and keeps the sums over the chunk's rows in registers. Two blocks share a
// multiprocessor, so that one works while the other waits at a barrier.
#include <algorithm>

#include "blueprint/activation_plan.hpp"
#include "cuda/column_sums.cuh"
#include "cuda/norm_rows.cuh"

namespace espalier::cuda {
namespace {

constexpr int kChunk = static_cast<int>(kNormChunk);
constexpr int kMostThreads = 1024;
constexpr int kSharingThreads = 512;  // of a block that leaves room for another one
constexpr int kLongThreads = 512;     // of the kernel for long rows

/// How a block is laid out: a function of the type, the columns and the device's shared memory, so
/// that the order of every sum is one too.
struct Layout {
  int threads;
  int pieces;  // of a row, the last one filled up with zeros
  int groups;  // of threads: thread t has piece t % pieces of every groups-th row from t / pieces
  int lanes;   // of a team that sums over a row
  int batch;   // rows
  int parts;   // teams of one row
};

/// Where in shared memory what stands, in bytes; then come the buffers, and over them at the end
/// the sums of the chunk.
struct Places {
  int statistics, factors, sums, buffers;
};
inline __host__ __device__ Places places(const Layout& l) {
  const int statistics = kChunk * 3 * static_cast<int>(sizeof(int64_t));  // after the rows' offsets
  const int factors = statistics + kChunk * static_cast<int>(sizeof(float2));
  const int sums = factors + kChunk * static_cast<int>(sizeof(float4));
  const int end = sums + l.batch * l.parts * static_cast<int>(sizeof(float2));
  return {statistics, factors, sums, (end + 15) / 16 * 16};
}
// At least the bytes in front of the buffers, and half of the 1 KiB that the device keeps a block.
// There are at most kMostThreads / 4 teams, hence no more parts of rows.
constexpr int kBesides = 6 * 1024;
static_assert(kChunk * (24 + 8 + 16) + kMostThreads / 4 * 8 + 16 + 512 <= kBesides,
              "two blocks have to fit where their buffers take half of the shared memory each");

template <class T>
struct Arrays {
  T *dy, *x, *dx;  // [batch, pieces * W] in shared memory; dx where it is added to
};

template <class T, int W>
__device__ __forceinline__ Piece<T, 4> four_of(const Piece<T, W>& p, int first) {
  Piece<T, 4> four;
#pragma unroll
  for (int e = 0; e < 4; ++e) four.at[e] = p.at[first + e];
  return four;
}

// Starts to copy rows [from, from + count) of the chunk, each thread its own pieces.
template <bool kWhole, class T>
__device__ __forceinline__ void copy_batch(const NormBackward<T>& c, const Layout& l,
                                           const Arrays<T>& to, const int64_t* offsets, int from,
                                           int count, int group, int piece) {
  constexpr int W = kPieceSize<T>;
  const int64_t column = int64_t{piece} * W;
  const int rest = c.x.columns - column;
  for (int r = group; r < count; r += l.groups) {
    const int64_t* at = offsets + 3 * (from + r);
    const T *dy = c.dy.data + at[0] + column, *x = c.x.data + at[1] + column;
    const T* dx = c.dx.data + at[2] + column;
    const int place = (r * l.pieces + piece) * W;
    if constexpr (kWhole) {
      copy_async_16(to.dy + place, dy, true);
      copy_async_16(to.x + place, x, true);
      if (c.accumulate) copy_async_16(to.dx + place, dx, true);
    } else {
      store_piece<W>(to.dy + place, gather_piece(dy, rest));
      store_piece<W>(to.x + place, gather_piece(x, rest));
      if (c.accumulate) store_piece<W>(to.dx + place, gather_piece(dx, rest));
    }
  }
}

// sums[row, part] = the sums of dy w (x - mean) and of dy w over the part's pieces.
template <bool kWhole, class T>
__device__ __forceinline__ void sum_rows(const NormBackward<T>& c, const Layout& l,
                                         const Arrays<T>& from, const float2* statistics,
                                         float2* sums, int count) {
  constexpr int W = kPieceSize<T>;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % l.lanes, team = thread / l.lanes, teams = l.threads / l.lanes;
  const int items = count * l.parts;
  for (int base = 0; base < items; base += teams) {  // every lane of a warp: it sums over them
    const int item = base + team;
    const int row = l.parts == 1 ? item : item / l.parts, part = item - row * l.parts;
    float projected = 0, shift = 0;
    if (item < items) {
      const float mean = statistics[row].x;
      for (int p = part * l.lanes + lane; p < l.pieces; p += l.lanes * l.parts) {
        float g[W], x[W], w[W];
        to_floats(load_piece<W>(static_cast<const T*>(from.dy + (row * l.pieces + p) * W)), g);
        to_floats(load_piece<W>(static_cast<const T*>(from.x + (row * l.pieces + p) * W)), x);
        const T* weight = c.weight + int64_t{p} * W;
        to_floats(fetch_piece<kWhole>(weight, c.x.columns - int64_t{p} * W), w);
#pragma unroll
        for (int e = 0; e < W; ++e) {
          const float gw = g[e] * w[e];
          projected = fmaf(gw, x[e] - mean, projected);
          shift = fmaf(g[e], w[e], shift);  // fused by hand: both instances must round alike
        }
      }
    }
    projected = lanes_sum(projected, l.lanes);
    shift = lanes_sum(shift, l.lanes);
    if (item < items && lane == 0) sums[item] = make_float2(projected, shift);
  }
}

// factors[row] = mean, rstd, slope, level: dx = rstd w dy - xhat slope - level, where slope = rstd
// (mean of w dy xhat) and level = rstd (mean of w dy).
template <class T>
__device__ __forceinline__ void form_factors(const NormBackward<T>& c, const Layout& l,
                                             float4* factors, const float2* statistics,
                                             const float2* sums, int count) {
  const float size = static_cast<float>(c.x.columns);
  for (int r = static_cast<int>(threadIdx.x); r < count; r += l.threads) {
    const float mean = statistics[r].x, rstd = statistics[r].y;
    float projected = 0, shift = 0;
#pragma unroll 1
    for (int part = 0; part < l.parts; ++part) {
      const float2 sum = sums[r * l.parts + part];
      projected += sum.x;
      shift += sum.y;
    }
    factors[r] = make_float4(mean, rstd, rstd * rstd * (projected / size),
                             c.centred ? rstd * (shift / size) : 0.0f);
  }
}

template <class T, bool kWhole>
__global__ void __launch_bounds__(kMostThreads) norm_backward_kernel(NormBackward<T> c, Layout l) {
  constexpr int W = kPieceSize<T>;
  unsigned char* shared = shared_memory<unsigned char>();
  const Places at = places(l);
  int64_t* offsets = reinterpret_cast<int64_t*>(shared);  // [kChunk, 3] of dy, x, dx
  float2* statistics = reinterpret_cast<float2*>(shared + at.statistics);  // mean, rstd
  float4* factors = reinterpret_cast<float4*>(shared + at.factors);        // of the batch
  float2* sums = reinterpret_cast<float2*>(shared + at.sums);
  const int thread = static_cast<int>(threadIdx.x), width = l.pieces * W;
  const int64_t n = c.x.columns, first = int64_t{blockIdx.x} * kChunk;
  const int64_t rest = c.x.rows - first;
  const int rows = static_cast<int>(rest < kChunk ? rest : kChunk);
  const auto buffer = [&](int i) {
    T* start = reinterpret_cast<T*>(shared + at.buffers);
    start += i * l.batch * width * (c.accumulate ? 3 : 2);
    return Arrays<T>{start, start + l.batch * width, start + 2 * l.batch * width};
  };
  for (int i = thread; i < rows; i += l.threads) {
    offsets[3 * i] = row_of(c.dy, first + i) - c.dy.data;
    offsets[3 * i + 1] = row_of(c.x, first + i) - c.x.data;
    offsets[3 * i + 2] = row_of(c.dx, first + i) - c.dx.data;
  }
  for (int i = thread; i < rows; i += l.threads) {
    const float* from = c.statistics + 2 * (first + i);
    statistics[i] = make_float2(from[0], from[1]);
  }

  const int owner = thread / l.pieces, piece = thread - owner * l.pieces;
  const int group = owner < l.groups ? owner : kChunk;  // threads past the last group have no row
  const int64_t column = int64_t{piece} * W;
  const Piece<T, W> weight = fetch_piece<kWhole>(c.weight + column, n - column);
  float weight_sum[W] = {}, bias_sum[W] = {};
  __syncthreads();

  copy_batch<kWhole>(c, l, buffer(0), offsets, 0, rows < l.batch ? rows : l.batch, group, piece);
  commit_copies();
  for (int from = 0, turn = 0; from < rows; from += l.batch, turn ^= 1) {
    const int count = rows - from < l.batch ? rows - from : l.batch;
    wait_for_copies<0>();
    __syncthreads();  // the batch is there, and nobody reads the one before it
    const int next = from + l.batch;
    if (next < rows)
      copy_batch<kWhole>(c, l, buffer(turn ^ 1), offsets, next,
                         rows - next < l.batch ? rows - next : l.batch, group, piece);
    commit_copies();
    const Arrays<T> now = buffer(turn);
    sum_rows<kWhole>(c, l, now, statistics + from, sums, count);
    __syncthreads();
    form_factors(c, l, factors, statistics + from, sums, count);
    __syncthreads();
    for (int r = group; r < count; r += l.groups) {
      const float4 f = factors[r];
      const float mean = f.x, rstd = f.y, slope = f.z, level = f.w;
      T* dx = c.dx.data + offsets[3 * (from + r) + 2] + column;
      Piece<T, W> out;
      // Four columns at a time: eight at once would take more registers than there are.
#pragma unroll
      for (int h = 0; h < W; h += 4) {
        const int place = r * width + piece * W + h;
        float g[4], x[4], w[4], old[4] = {};
        to_floats(load_piece<4>(static_cast<const T*>(now.dy + place)), g);
        to_floats(load_piece<4>(static_cast<const T*>(now.x + place)), x);
        to_floats(four_of(weight, h), w);
        if (c.accumulate) to_floats(load_piece<4>(static_cast<const T*>(now.dx + place)), old);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float xhat = (x[e] - mean) * rstd;
          weight_sum[h + e] = fmaf(g[e], xhat, weight_sum[h + e]);
          bias_sum[h + e] += g[e];
          const float change = fmaf(-xhat, slope, fmaf(g[e], w[e] * rstd, -level));
          g[e] = c.accumulate ? old[e] + change : change;
        }
        const Piece<T, 4> four = to_piece<T>(g);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (kWhole)
            out.at[h + e] = four.at[e];
          else if (h + e < n - column)
            dx[h + e] = four.at[e];
        }
      }
      if constexpr (kWhole) store_piece<W>(dx, out);
    }
  }

  __syncthreads();
  float* chunk_sums = reinterpret_cast<float*>(shared + at.buffers);  // [2, groups, width]
  if (group < l.groups) {
#pragma unroll
    for (int e = 0; e < W; ++e) {
      chunk_sums[group * width + piece * W + e] = weight_sum[e];
      chunk_sums[(l.groups + group) * width + piece * W + e] = bias_sum[e];
    }
  }
  __syncthreads();
  float* partials = c.partials + int64_t{blockIdx.x} * 2 * n;
  for (int j = thread; j < n; j += l.threads) {
    float w = 0, b = 0;
    for (int g = 0; g < l.groups; ++g) {
      w += chunk_sums[g * width + j];
      b += chunk_sums[(l.groups + g) * width + j];
    }
    partials[j] = w;
    partials[n + j] = b;
  }
}

// For rows that are too long for shared memory: read twice, the chunk's sums kept in memory.
template <class T>
__global__ void __launch_bounds__(kLongThreads) long_norm_backward_kernel(NormBackward<T> c) {
  constexpr int kWarps = kLongThreads / kWarp;
  float* shared = shared_memory<float>();  // [2][kWarps, 2], rows by turns
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t n = c.x.columns, first = int64_t{blockIdx.x} * kChunk;
  const int64_t last = first + kChunk < c.x.rows ? first + kChunk : c.x.rows;
  float* weight_sums = c.partials + int64_t{blockIdx.x} * 2 * n;
  float* bias_sums = weight_sums + n;
  const float size = static_cast<float>(n);
  for (int64_t i = first; i < last; ++i) {
    const T *x = row_of(c.x, i), *dy = row_of(c.dy, i);
    T* dx = row_of(c.dx, i);
    const float mean = c.statistics[2 * i], rstd = c.statistics[2 * i + 1];
    float projected = 0, shift = 0;
    for (int64_t j = thread; j < n; j += kLongThreads) {
      const float gw = static_cast<float>(dy[j]) * static_cast<float>(c.weight[j]);
      projected = fmaf(gw, static_cast<float>(x[j]) - mean, projected);
      shift += gw;
    }
    projected = lanes_sum(projected, kWarp);
    shift = lanes_sum(shift, kWarp);
    float* sums = shared + (i & 1) * 2 * kWarps;
    if (thread % kWarp == 0) {
      sums[thread / kWarp * 2] = projected;
      sums[thread / kWarp * 2 + 1] = shift;
    }
    __syncthreads();
    projected = shift = 0;
    for (int w = 0; w < kWarps; ++w) {
      projected += sums[2 * w];
      shift += sums[2 * w + 1];
    }
    const float slope = rstd * rstd * (projected / size);
    const float level = c.centred ? rstd * (shift / size) : 0.0f;
    for (int64_t j = thread; j < n; j += kLongThreads) {
      const float g = static_cast<float>(dy[j]);
      const float xhat = (static_cast<float>(x[j]) - mean) * rstd;
      weight_sums[j] = fmaf(g, xhat, i == first ? 0.0f : weight_sums[j]);
      bias_sums[j] = g + (i == first ? 0.0f : bias_sums[j]);
      const float scaled = static_cast<float>(c.weight[j]) * rstd;
      const float change = fmaf(-xhat, slope, fmaf(g, scaled, -level));
      dx[j] = static_cast<T>(c.accumulate ? static_cast<float>(dx[j]) + change : change);
    }
  }
}

int64_t shared_limit() {
  static const int limit = [] {
    int device = 0, bytes = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "cudaDeviceGetAttribute");
    return bytes;
  }();
  return limit;
}

/// threads = 0 where a row is too long. `limit`: the most shared memory of a block, 1 KiB less than
/// a multiprocessor has. Two buffers of three arrays have to fit, whether dx is added to or not,
/// lest the layout depend on it.
Layout layout_for(int64_t pieces, int64_t limit) {
  Layout l{};
  const int64_t row = 6 * pieces * 16;
  const bool shares = pieces <= kSharingThreads && row <= limit / 2 - kBesides;
  const int64_t most = (shares ? limit / 2 : limit) - kBesides;
  if (pieces > kMostThreads || row > most) return l;
  l.pieces = static_cast<int>(pieces);
  // Small blocks for the short rows of heads, of which several share a multiprocessor.
  const int aim = pieces <= 32 ? kMostThreads / 4 : shares ? kSharingThreads : kMostThreads;
  l.groups = 1;
  while (2 * l.groups * l.pieces <= aim && 2 * l.groups <= kChunk) l.groups *= 2;
  l.threads = static_cast<int>(blocks_for(l.groups * pieces, kWarp)) * kWarp;
  // Two pieces a lane where there are so many: fewer exchanges between lanes.
  l.lanes = 4;
  while (l.lanes < kWarp && 2 * l.lanes < l.pieces) l.lanes *= 2;
  l.batch = kChunk;
  while (l.batch > 1 && row * l.batch > most) l.batch /= 2;
  l.groups = std::min(l.groups, l.batch);
  const int64_t useful = blocks_for(pieces, l.lanes);
  l.parts = std::clamp(l.threads / l.lanes / l.batch, 1, static_cast<int>(useful));
  return l;
}

}  // namespace

template <class T>
void norm_backward(const NormBackward<T>& c, Stream stream) {
  const int64_t rows = c.x.rows, n = c.x.columns, chunks = blocks_for(rows, kChunk);
  if (rows == 0 || n == 0) return;
  constexpr int W = kPieceSize<T>;
  const Layout l = layout_for(blocks_for(n, W), shared_limit());
  const dim3 grid(static_cast<unsigned>(chunks));
  if (l.threads == 0) {
    launch("norm_backward", long_norm_backward_kernel<T>, grid, dim3(kLongThreads),
           4 * (kLongThreads / kWarp) * sizeof(float), stream, c);
  } else {
    const bool whole =
        is_whole(c.dx) && is_whole(c.dy) && is_whole(c.x) && are_aligned(16, c.weight);
    const int64_t width = int64_t{l.pieces} * W;
    const int64_t arrays = (l.batch < kChunk ? 2 : 1) * (c.accumulate ? 3 : 2);
    const int64_t buffers = arrays * l.batch * width * static_cast<int64_t>(sizeof(T));
    const int64_t sums = 2 * l.groups * width * static_cast<int64_t>(sizeof(float));
    launch("norm_backward", whole ? norm_backward_kernel<T, true> : norm_backward_kernel<T, false>,
           grid, dim3(static_cast<unsigned>(l.threads)),
           static_cast<size_t>(places(l).buffers + std::max(buffers, sums)), stream, c, l);
  }
  add_column_sums("norm_backward_sum", c.dw, c.db, n, c.partials, chunks, 2 * n,
                  c.db == nullptr ? n : 2 * n, stream);
}

template void norm_backward<float>(const NormBackward<float>&, Stream);
template void norm_backward<bf16>(const NormBackward<bf16>&, Stream);
template void norm_backward<fp16>(const NormBackward<fp16>&, Stream);

}  // namespace espalier::cuda
