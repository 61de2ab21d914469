// SPDX-License-Identifier: Apache-2.0
// Embedding lookup and its gradient.
#include <algorithm>

#include "cuda/pieces.cuh"
#include "cuda/pointwise.hpp"

namespace espalier::cuda {
namespace {

template <class T, int W>
struct Lookup {
  EmbeddingForward<T> c;
  struct Held {
    Piece<T, W> token, position;
    bool inside;
  };
  __device__ Held load(int64_t row, int64_t piece) const {
    const int64_t entry = int64_t{c.tokens[row]} - c.first;
    Held h;
    h.inside = entry >= 0 && entry < c.entries;
    if (h.inside) {
      h.token = load_piece<W>(c.table + entry * c.columns + piece * W);
      if (c.position_table != nullptr)
        h.position =
            load_piece<W>(c.position_table + int64_t{c.positions[row]} * c.columns + piece * W);
    }
    return h;
  }
  __device__ void finish(const Held& h, int64_t row, int64_t piece) const {
    Piece<T, W> out;
    if (!h.inside) {
#pragma unroll
      for (int e = 0; e < W; ++e) out.at[e] = static_cast<T>(-0.0f);
    } else if (c.position_table != nullptr) {
      float x[W], p[W];
      to_floats(h.token, x);
      to_floats(h.position, p);
#pragma unroll
      for (int e = 0; e < W; ++e) x[e] += p[e];
      out = to_piece<T>(x);
    } else {
      out = h.token;
    }
    store_piece<W>(c.x + row * c.columns + piece * W, out);
  }
};

// The gradient without atomics and without sorting: block b of 2^s owns the entries b, b + 2^s, ...
// (tokenizers put frequent tokens side by side) and reads every token number, from the second-level
// cache after the first block, kScan at a time. Those of its entries it lists in shared memory, in
// token order; when the list may overflow, and at the end, warps take (entry, tile of columns)
// pairs and add.
constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kPerThread = 8, kScan = kThreads * kPerThread;
constexpr int kListed = 2 * kScan;
constexpr int kAhead = 8;  // rows of dx that a thread has under way
constexpr int64_t kFewestBlocks = 512, kMostEntries = 64;

template <class T>
struct Scatter {
  float* d_table;
  const T* dx;
  const int32_t* index;
  int64_t tokens, columns, entries, first;
  int shift;  // of the number of blocks
};

struct List {
  int32_t* token;  // [kListed]
  int32_t* entry;  // [kListed], in the block's count
};

template <int W>
__device__ __forceinline__ void load_sums(float (&sum)[W], const float* from) {
  constexpr int kWord = W == 1 ? 1 : 4;
#pragma unroll
  for (int e = 0; e < W; e += kWord) {
    const auto piece = load_piece<kWord>(from + e);
#pragma unroll
    for (int i = 0; i < kWord; ++i) sum[e + i] = piece.at[i];
  }
}
template <int W>
__device__ __forceinline__ void store_sums(float* to, const float (&sum)[W]) {
  constexpr int kWord = W == 1 ? 1 : 4;
#pragma unroll
  for (int e = 0; e < W; e += kWord) {
    Piece<float, kWord> piece;
#pragma unroll
    for (int i = 0; i < kWord; ++i) piece.at[i] = sum[e + i];
    store_piece<kWord>(to + e, piece);
  }
}

// One warp adds what is listed for one entry to W columns a lane from `column` on. Each column is
// read once, added to in token order and written once.
template <int W, class T>
__device__ void add_entry(const Scatter<T>& c, const List& list, int listed, int entry,
                          float* d_row, int64_t column, bool inside) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float sum[W] = {};
  bool loaded = false;
  for (int base = 0; base < listed; base += kWarp) {
    const int at = base + lane;
    const bool mine = at < listed && list.entry[at] == entry;
    const int32_t token = mine ? list.token[at] : 0;
    unsigned left = __ballot_sync(kFullWarp, mine);
    if (left != 0 && !loaded) {
      loaded = true;
      if (inside) load_sums(sum, static_cast<const float*>(d_row + column));
    }
    while (left != 0) {
      Piece<T, W> ahead[kAhead];
      int count = 0;
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (left != 0) {
          const int source = __ffs(static_cast<int>(left)) - 1;
          left &= left - 1;
          const int64_t row = __shfl_sync(kFullWarp, token, source);
          if (inside) ahead[k] = load_piece<W>(c.dx + row * c.columns + column);
          ++count;
        }
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        if (k < count && inside) {
          float x[W];
          to_floats(ahead[k], x);
#pragma unroll
          for (int e = 0; e < W; ++e) sum[e] += x[e];
        }
      }
    }
  }
  if (loaded && inside) store_sums(d_row + column, sum);
}

template <int W, class T>
__device__ void add_listed(const Scatter<T>& c, const List& list, int listed, int owned) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kTile = kWarp * W;
  const int tiles = static_cast<int>((c.columns + kTile - 1) / kTile);
  // Tiles of one entry lie in different warps: a frequent token keeps them all busy.
  for (int pair = warp; pair < owned * tiles; pair += kWarps) {
    const int entry = pair / tiles, tile = pair - entry * tiles;
    const int64_t column = int64_t{tile} * kTile + lane * W;
    const int64_t row = (int64_t{entry} << c.shift) + blockIdx.x;
    add_entry<W>(c, list, listed, entry, c.d_table + row * c.columns, column, column < c.columns);
  }
}

template <int W, class T>
__global__ void __launch_bounds__(kThreads, 3) scatter_kernel(Scatter<T> c) {
  int32_t* shared = shared_memory<int32_t>();
  const List list{shared, shared + kListed};
  int32_t* all_counts = shared + 2 * kListed;  // [2][kWarps], of this scan and the one before
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const unsigned before = (1u << lane) - 1;
  const int64_t blocks = int64_t{1} << c.shift, block = blockIdx.x;
  const int owned = static_cast<int>((c.entries - block + blocks - 1) >> c.shift);
  int listed = 0, parity = 0;
  for (int64_t start = 0; start < c.tokens; start += kScan, parity ^= 1) {
    // A warp's tokens follow each other, so that the warps' parts in order are token order.
    const int64_t from = start + warp * (kPerThread * kWarp) + lane;
    int32_t entry[kPerThread];
    int found = 0;
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int64_t t = from + k * kWarp;
      const int64_t e = t < c.tokens ? c.index[t] - c.first : -1;
      const bool mine = e >= 0 && e < c.entries && (e & (blocks - 1)) == block;
      entry[k] = mine ? static_cast<int32_t>(e >> c.shift) : -1;
    }
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) found += __popc(__ballot_sync(kFullWarp, entry[k] >= 0));
    int32_t* counts = all_counts + parity * kWarps;
    if (lane == 0) counts[warp] = found;
    __syncthreads();
    int at = listed;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) at += counts[w];
      listed += counts[w];
    }
    if (found != 0) {
#pragma unroll
      for (int k = 0; k < kPerThread; ++k) {
        const unsigned hits = __ballot_sync(kFullWarp, entry[k] >= 0);
        if (entry[k] >= 0) {
          const int place = at + __popc(hits & before);
          list.token[place] = static_cast<int32_t>(from + k * kWarp);
          list.entry[place] = entry[k];
        }
        at += __popc(hits);
      }
    }
    if (listed > kListed - kScan || start + kScan >= c.tokens) {
      __syncthreads();
      add_listed<W>(c, list, listed, owned);
      listed = 0;
    }
  }
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingForward<T>& c, Stream stream) {
  if (c.rows == 0 || c.columns == 0) return;
  constexpr int W = kPieceSize<T>;
  if (c.columns % W == 0 && are_aligned(16, c.x, c.table, c.position_table))
    pointwise<4>("embedding_forward", Lookup<T, W>{c}, c.rows, c.columns / W, stream);
  else
    pointwise<4>("embedding_forward", Lookup<T, 1>{c}, c.rows, c.columns, stream);
}

template <class T>
void embedding_backward(float* d_table, const T* dx, const int32_t* index, int64_t tokens,
                        int64_t columns, int64_t entries, int64_t first, Stream stream) {
  if (tokens == 0 || columns == 0 || entries == 0) return;
  constexpr int W = kPieceSize<T>;
  // Blocks enough for any device, yet few, since each reads all token numbers.
  int shift = 0;
  while ((int64_t{1} << shift) < entries &&
         ((int64_t{1} << shift) < kFewestBlocks || (entries >> shift) >= kMostEntries))
    ++shift;
  const Scatter<T> call{d_table, dx, index, tokens, columns, entries, first, shift};
  const dim3 grid(static_cast<unsigned>(std::min(entries, int64_t{1} << shift)));
  constexpr size_t kShared = (2 * kListed + 2 * kWarps) * sizeof(int32_t);
  if (columns % W == 0 && are_aligned(16, dx, d_table))
    launch("embedding_backward", scatter_kernel<W, T>, grid, dim3(kThreads), kShared, stream, call);
  else
    launch("embedding_backward", scatter_kernel<1, T>, grid, dim3(kThreads), kShared, stream, call);
}

#define ESPALIER_INSTANTIATE(T)                                                                    \
  template void embedding_forward<T>(const EmbeddingForward<T>&, Stream);                          \
  template void embedding_backward<T>(float*, const T*, const int32_t*, int64_t, int64_t, int64_t, \
                                      int64_t, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
