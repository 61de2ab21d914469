// SPDX-License-Identifier: Apache-2.0
// Norms, and norms fused with the residual addition before them. A team of threads takes a row and
// keeps it in registers from the one read to the one write.
#include "cuda/norm_rows.cuh"

namespace espalier::cuda {
namespace {

constexpr int kSmallBlock = 128;  // threads of a block whose teams are parts of warps
constexpr int kMostTeam = 1024;

template <class T>
struct Call {
  NormRows<T> y;
  NormRows<const T> x;  // of the norm alone
  float* statistics;
  const T *weight, *bias;
  float eps;
  bool centred;
  T* sum;  // of the residual form: sum = stream + (delta + delta_bias), without gaps
  const T *stream, *delta, *delta_bias;
};

// Sum over the team; `shared` [kMostTeam / kWarp], another one for each sum of a kernel. The order
// depends on the team alone: warps by halves, then the warps one by one.
__device__ __forceinline__ float team_sum(float x, int team, float* shared) {
  x = lanes_sum(x, team);
  if (team <= kWarp) return x;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread % kWarp == 0) shared[thread / kWarp] = x;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < team / kWarp; ++w) total += shared[w];
  return total;
}

// f(k, p) for the pieces p = lane, lane + team, ... of a row, k counting them. kHeld = 0: any
// number.
template <int kHeld, class F>
__device__ __forceinline__ void each_piece(int lane, int team, int pieces, const F& f) {
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int p = lane + k * team;
      if (p < pieces) f(k, p);
    }
  } else {
    for (int p = lane; p < pieces; p += team) f(0, p);
  }
}

// kHeld > 0: at most kHeld pieces a thread, held in registers, all accesses aligned. kHeld = 0: x
// is read anew for each pass, element by element; the same team adds in the same order, so that the
// bits of a row depend neither on its alignment nor on which form runs.
template <class T, int kTeam, int kHeld, bool kResidual>
__global__ void __launch_bounds__(kHeld == 0       ? kMostTeam
                                  : kTeam <= kWarp ? kSmallBlock
                                                   : kTeam)
    norm_forward_kernel(Call<T> c, int chosen_team) {
  constexpr int W = kPieceSize<T>;
  constexpr bool kHolds = kHeld > 0;
  float* shared = shared_memory<float>();
  const int team = kHolds ? kTeam : chosen_team;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % team;
  const int64_t n = c.y.columns;
  const int64_t row =
      int64_t{blockIdx.x} * (blockDim.x / static_cast<unsigned>(team)) + thread / team;
  const bool active = row < c.y.rows;
  const int pieces = active ? static_cast<int>((n + W - 1) / W) : 0;
  const T* x = nullptr;
  if (active) x = kResidual ? c.sum + row * n : row_of(c.x, row);
  const auto fetch = [&](const T* from, int p) {
    const int64_t at = int64_t{p} * W;
    return fetch_piece<kHolds>(from + at, n - at);
  };
  const auto put = [&](T* to, int p, const Piece<T, W>& piece) {
    const int64_t at = int64_t{p} * W;
    put_piece<kHolds>(to + at, piece, n - at);
  };

  Piece<T, W> held[kHolds ? kHeld : 1];
  if constexpr (kResidual) {
    const auto add = [&](int p, const Piece<T, W>& stream, const Piece<T, W>& delta) {
      float s[W], d[W];
      to_floats(stream, s);
      to_floats(delta, d);
      if (c.delta_bias != nullptr) {
        float b[W];
        to_floats(fetch(c.delta_bias, p), b);
#pragma unroll
        for (int e = 0; e < W; ++e) d[e] += b[e];
      }
#pragma unroll
      for (int e = 0; e < W; ++e) s[e] += d[e];
      const Piece<T, W> sum = to_piece<T>(s);
      put(c.sum + row * n, p, sum);
      return sum;
    };
    const T *stream = c.stream + row * n, *delta = c.delta + row * n;
    if constexpr (kHolds) {
      Piece<T, W> deltas[kHeld];
      each_piece<kHeld>(lane, team, pieces, [&](int k, int p) {
        held[k] = fetch(stream, p);
        deltas[k] = fetch(delta, p);
      });
      each_piece<kHeld>(lane, team, pieces,
                        [&](int k, int p) { held[k] = add(p, held[k], deltas[k]); });
    } else {
      each_piece<0>(lane, team, pieces,
                    [&](int, int p) { add(p, fetch(stream, p), fetch(delta, p)); });
    }
  } else if constexpr (kHolds) {
    each_piece<kHeld>(lane, team, pieces, [&](int k, int p) { held[k] = fetch(x, p); });
  }
  const auto values = [&](int k, int p, float(&v)[W]) {
    if constexpr (kHolds)
      to_floats(held[k], v);
    else
      to_floats(fetch(x, p), v);
  };

  const float size = static_cast<float>(n);
  float mean = 0;
  if (c.centred) {
    float sum = 0;
    each_piece<kHeld>(lane, team, pieces, [&](int k, int p) {
      float v[W];
      values(k, p, v);
#pragma unroll
      for (int e = 0; e < W; ++e) sum += v[e];  // past the end are zeros
    });
    mean = team_sum(sum, team, shared) / size;
  }
  float square = 0;
  each_piece<kHeld>(lane, team, pieces, [&](int k, int p) {
    float v[W];
    values(k, p, v);
#pragma unroll
    for (int e = 0; e < W; ++e) {
      const float d = v[e] - mean;
      if (kHolds || int64_t{p} * W + e < n) square = fmaf(d, d, square);
    }
  });
  const float variance = team_sum(square, team, shared + kMostTeam / kWarp) / size;
  const float rstd = 1.0f / sqrtf(variance + c.eps);
  if (active && lane == 0) {
    c.statistics[2 * row] = mean;
    c.statistics[2 * row + 1] = rstd;
  }
  T* y = active ? row_of(c.y, row) : nullptr;
  each_piece<kHeld>(lane, team, pieces, [&](int k, int p) {
    float v[W], w[W];
    values(k, p, v);
    to_floats(fetch(c.weight, p), w);
    if (c.bias != nullptr) {
      float b[W];
      to_floats(fetch(c.bias, p), b);
#pragma unroll
      for (int e = 0; e < W; ++e) v[e] = fmaf((v[e] - mean) * rstd, w[e], b[e]);
    } else {
#pragma unroll
      for (int e = 0; e < W; ++e) v[e] = (v[e] - mean) * rstd * w[e];
    }
    put(y, p, to_piece<T>(v));
  });
}

template <class T, int kTeam, int kHeld, bool kResidual>
void start(const Call<T>& c, int team, Stream stream) {
  const int block = team <= kWarp ? kSmallBlock : team;
  launch(kResidual ? "residual_norm_forward" : "norm_forward",
         norm_forward_kernel<T, kTeam, kHeld, kResidual>,
         dim3(static_cast<unsigned>(blocks_for(c.y.rows, block / team))),
         dim3(static_cast<unsigned>(block)), 2 * (kMostTeam / kWarp) * sizeof(float), stream, c,
         team);
}

template <class T, bool kResidual>
void run(const Call<T>& c, bool whole, Stream stream) {
  if (c.y.rows == 0 || c.y.columns == 0) return;
  const int64_t pieces = blocks_for(c.y.columns, kPieceSize<T>);
  // The team is a function of the columns alone, whole or not.
  const int team = pieces <= 8      ? 8
                   : pieces <= 16   ? 16
                   : pieces <= 128  ? 32
                   : pieces <= 512  ? 128
                   : pieces <= 1024 ? 256
                   : pieces <= 4096 ? 512
                                    : kMostTeam;
  if (!whole || team == kMostTeam) return start<T, 0, 0, kResidual>(c, team, stream);
  switch (team) {
    case 8: start<T, 8, 1, kResidual>(c, team, stream); break;
    case 16: start<T, 16, 1, kResidual>(c, team, stream); break;
    case 32:
      if (pieces <= 32)
        start<T, 32, 1, kResidual>(c, team, stream);
      else
        start<T, 32, 4, kResidual>(c, team, stream);
      break;
    case 128: start<T, 128, 4, kResidual>(c, team, stream); break;
    case 256: start<T, 256, 4, kResidual>(c, team, stream); break;
    default: start<T, 512, 8, kResidual>(c, team, stream); break;
  }
}

}  // namespace

template <class T>
void norm_forward(const NormForward<T>& f, Stream stream) {
  const Call<T> c{f.y,       f.x,     f.statistics, f.weight, f.bias, f.eps,
                  f.centred, nullptr, nullptr,      nullptr,  nullptr};
  run<T, false>(c, is_whole(f.x) && is_whole(f.y) && are_aligned(16, f.weight, f.bias), stream);
}

template <class T>
void residual_norm_forward(const ResidualNormForward<T>& f, Stream stream) {
  const NormRows<T> y{f.y, f.rows, f.columns, 1, f.columns, 0};
  const Call<T> c{y,         {},  f.statistics, f.weight, f.bias,      f.eps,
                  f.centred, f.x, f.stream,     f.delta,  f.delta_bias};
  run<T, true>(
      c, is_whole(y) && are_aligned(16, f.x, f.stream, f.delta, f.delta_bias, f.weight, f.bias),
      stream);
}

#define ESPALIER_INSTANTIATE(T)                                 \
  template void norm_forward<T>(const NormForward<T>&, Stream); \
  template void residual_norm_forward<T>(const ResidualNormForward<T>&, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier::cuda
