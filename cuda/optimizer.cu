// SPDX-License-Identifier: Apache-2.0
// Element arithmetic is written with its fused multiplications, so that groups and single elements
// give the same bits whatever the compiler makes of the rest.
#include "cuda/optimizer.hpp"

#include <cmath>

#include "core/error.hpp"
#include "cuda/runs.cuh"

namespace espalier::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 4;           // elements of fp32 in one word
constexpr int64_t kPart = 1 << 12;  // elements of a run that a block takes
constexpr int kDrawn = 8;           // elements that share one block of random numbers
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

/// One element: the new weight; m and v become the new moments.
__device__ __forceinline__ float updated(const AdamWFactors& f, float keep, float weight,
                                         float gradient, float& m, float& v) {
  const float g = gradient * f.gradient_scale;
  m = fmaf(f.beta1, m, f.rest1 * g);
  v = fmaf(f.beta2, v, f.rest2 * (g * g));
  const float step = f.rate * m / fmaf(sqrtf(v), f.root_factor, f.eps);
  return fmaf(keep, weight, -step);
}

template <int kCount>
__device__ __forceinline__ void read(const float* from, float (&x)[kCount]) {
  if constexpr (kCount == 1)
    x[0] = from[0];
  else
    load_values<float, kCount>(from, x);
}
template <class T, int kCount>
__device__ __forceinline__ void write(T* to, const float (&x)[kCount]) {
  if constexpr (kCount == 1)
    to[0] = rounded<T>(x[0]);
  else
    store_values<T, kCount>(to, x);
}

/// Where a run's elements are.
template <class T>
struct Place {
  float* master;
  const float* gradient;
  float *first, *second;
  T* compute;
};

template <class T>
__device__ __forceinline__ Place<T> place_of(const AdamW<T>& call, const AdamWRun& run) {
  return {call.master == nullptr ? nullptr : call.master + run.master, call.gradient + run.gradient,
          call.first + run.moment, call.second + run.moment,
          call.compute == nullptr ? nullptr : call.compute + run.compute};
}

/// Moments of kCount elements updated in memory; weights [kCount] in place.
template <int kCount, class T>
__device__ __forceinline__ void update_moments(const Place<T>& p, const AdamWFactors& f, float keep,
                                               int64_t at, const float (&g)[kCount],
                                               float (&w)[kCount]) {
  float m[kCount], v[kCount];
  read(p.first + at, m);
  read(p.second + at, v);
#pragma unroll
  for (int i = 0; i < kCount; ++i) w[i] = updated(f, keep, w[i], g[i], m[i], v[i]);
  write(p.first + at, m);
  write(p.second + at, v);
}

template <int kCount, class T>
__device__ __forceinline__ void update(const Place<T>& p, const AdamWFactors& f, float keep,
                                       int64_t at) {
  float w[kCount], g[kCount];
  read(p.master + at, w);
  read(p.gradient + at, g);
  update_moments(p, f, keep, at, g, w);
  write(p.master + at, w);
  if constexpr (!std::is_same_v<T, float>) write(p.compute + at, w);
}

/// Block b takes part b % parts of run b / parts.
template <class T>
__global__ __launch_bounds__(kThreads) void adamw_kernel(const AdamW<T> call, int64_t parts) {
  const AdamWRun run = call.runs[blockIdx.x / parts];
  const int64_t part = blockIdx.x % parts;
  const Place<T> p = place_of(call, run);
  const float keep = run.decays ? call.factors.keep : 1.0f;
  Cut cut;
  if constexpr (std::is_same_v<T, float>)
    cut = cut_in_groups<kGroup>(run.size, p.master, p.gradient, p.first, p.second);
  else
    cut = cut_in_groups<kGroup>(run.size, p.master, p.gradient, p.first, p.second, p.compute);
  const int64_t items = cut.items(kGroup);
  for (int64_t i = part * kThreads + threadIdx.x; i < items; i += parts * kThreads) {
    if (i < cut.groups)
      update<kGroup>(p, call.factors, keep, cut.head + i * kGroup);
    else
      update<1>(p, call.factors, keep, cut.single(i, kGroup));
  }
}

/// 16 random bits out of a block, the lower half of each word first.
__device__ __forceinline__ uint32_t half_word(const Philox4& r, int place) {
  const uint32_t low = (place & 2) != 0 ? r.v[1] : r.v[0];
  const uint32_t high = (place & 2) != 0 ? r.v[3] : r.v[2];
  const uint32_t word = (place & 4) != 0 ? high : low;
  return (place & 1) != 0 ? word >> 16 : word & 0xffffu;
}

/// Away from zero where the 16 bits that are dropped and the random ones carry; NaN stays NaN.
__device__ __forceinline__ uint32_t stochastically_rounded(float x, uint32_t random) {
  const uint32_t bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return is_nan ? bits >> 16 | 0x40u : (bits + random) >> 16;
}

template <class T>
__global__ __launch_bounds__(kThreads) void stochastic_kernel(const AdamW<T> call,
                                                              StochasticRounding rounding,
                                                              int64_t parts) {
  const AdamWRun run = call.runs[blockIdx.x / parts];
  const int64_t part = blockIdx.x % parts;
  const Place<T> p = place_of(call, run);
  const float keep = run.decays ? call.factors.keep : 1.0f;
  // A group of elements is also one block of random numbers, if both begin in the same places.
  Cut cut = cut_in_groups<kDrawn>(run.size, p.compute, p.gradient, p.first, p.second);
  if ((run.element + cut.head) % kDrawn != 0) cut = {0, 0, run.size};
  const int64_t items = cut.items(kDrawn);
  for (int64_t i = part * kThreads + threadIdx.x; i < items; i += parts * kThreads) {
    const bool is_group = i < cut.groups;
    const int64_t at = is_group ? cut.head + i * kDrawn : cut.single(i, kDrawn);
    const int64_t element = run.element + at;
    const Philox4 random =
        philox(rounding.seed, rounding.purpose, static_cast<uint64_t>(element / kDrawn));
    if (is_group) {
      float w[kDrawn], g[kDrawn];
      load_values<T, kDrawn>(p.compute + at, w);
      read(p.gradient + at, g);
      update_moments(p, call.factors, keep, at, g, w);
      uint32_t words[kDrawn / 2];
#pragma unroll
      for (int j = 0; j < kDrawn / 2; ++j)
        words[j] = stochastically_rounded(w[2 * j], random.v[j] & 0xffffu) |
                   stochastically_rounded(w[2 * j + 1], random.v[j] >> 16) << 16;
      *reinterpret_cast<uint4*>(p.compute + at) =
          make_uint4(words[0], words[1], words[2], words[3]);
    } else {
      float w[1] = {float(p.compute[at])};
      const float g[1] = {p.gradient[at]};
      update_moments(p, call.factors, keep, at, g, w);
      p.compute[at].bits = static_cast<uint16_t>(
          stochastically_rounded(w[0], half_word(random, static_cast<int>(element % kDrawn))));
    }
  }
}

template <class T>
dim3 grid_of(const AdamW<T>& call, int64_t parts) {
  ESPALIER_REQUIRE(call.count * parts <= kMostBlocks,
                   "AdamW over {} runs of up to {} elements: more than {} blocks", call.count,
                   call.longest, kMostBlocks);
  return dim3(static_cast<unsigned>(call.count * parts));
}

// The sum of squares of a cell. Lane l of `lanes` takes elements [4 l, 4 l + 4) of every 4 lanes
// elements, so the order depends on an element's place in its cell alone, not on its address.
constexpr int kSlots = 4;
constexpr int kAhead = 4;           // groups that are read before the first is added
constexpr int64_t kLong = 1 << 11;  // longer cells are worth a whole block

template <class Real>
__device__ __forceinline__ void load_slots(const Real* x, bool aligned, Real (&g)[kSlots]) {
  if (aligned) {
    load_values<Real, kSlots>(x, g);
  } else {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) g[i] = x[i];
  }
}

template <class Real>
__device__ __forceinline__ void add_squares(const Real (&g)[kSlots], double (&sum)[kSlots]) {
#pragma unroll
  for (int i = 0; i < kSlots; ++i) {
    const auto x = static_cast<double>(g[i]);
    sum[i] = fma(x, x, sum[i]);
  }
}

template <class Real>
__device__ __forceinline__ double lane_sum(const Real* x, int64_t size, int64_t lane,
                                           int64_t lanes) {
  const bool aligned = takes_groups<kSlots>(x, 0);
  const int64_t step = lanes * kSlots;
  double sum[kSlots] = {};
  int64_t at = lane * kSlots;
  for (; at + (kAhead - 1) * step + kSlots <= size; at += kAhead * step) {
    Real g[kAhead][kSlots];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load_slots(x + at + i * step, aligned, g[i]);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) add_squares(g[i], sum);
  }
  for (; at + kSlots <= size; at += step) {
    Real g[kSlots];
    load_slots(x + at, aligned, g);
    add_squares(g, sum);
  }
#pragma unroll
  for (int i = 0; i < kSlots - 1; ++i) {
    if (at + i >= size) continue;
    const auto g = static_cast<double>(x[at + i]);
    sum[i] = fma(g, g, sum[i]);
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/// Cell number `index` of a run: where it begins and how many elements it has.
struct Cell {
  int64_t first, size;
};
__device__ __forceinline__ Cell cell_of(const NormRun& run, int64_t cells_a_row, int64_t index) {
  const int64_t in_row = index % cells_a_row * run.cell;
  const int64_t rest = run.row - in_row;
  return {run.offset + index / cells_a_row * run.row + in_row, run.cell < rest ? run.cell : rest};
}

/// A block a run. Cells of up to kLong elements by one warp, or by `width` lanes of it where they
/// have no more than 4 width elements: the other lanes would add zeros.
template <class Real>
__global__ __launch_bounds__(kThreads, 4) void square_sums_kernel(double* partial,
                                                                  const Real* gradient,
                                                                  const NormRun* runs) {
  auto* const shared = shared_memory<double>();
  const NormRun run = runs[blockIdx.x];
  const int64_t cells_a_row = (run.row + run.cell - 1) / run.cell;
  const int64_t cells = run.rows * cells_a_row;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  constexpr int kWarps = kThreads / kWarp;

  int width = 1;
  while (width < kWarp && int64_t{width} * kSlots < run.cell) width *= 2;
  const int at_once = kWarp / width;
  for (int64_t base = int64_t{warp} * at_once; base < cells; base += int64_t{kWarps} * at_once) {
    const int64_t index = base + lane / width;
    Cell cell{run.offset, 0};
    if (index < cells) cell = cell_of(run, cells_a_row, index);
    const bool is_mine = index < cells && cell.size <= kLong;
    double sum = is_mine ? lane_sum(gradient + cell.first, cell.size, lane % width, width) : 0.0;
    for (int step = width / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kFullWarp, sum, step);
    if (is_mine && lane % width == 0) partial[run.first_cell + index] = sum;
  }

  if (run.cell <= kLong || run.row <= kLong) return;
  for (int64_t index = 0; index < cells; ++index) {
    const Cell cell = cell_of(run, cells_a_row, index);
    if (cell.size <= kLong) continue;
    const double sum = warp_sum(
        lane_sum(gradient + cell.first, cell.size, static_cast<int64_t>(threadIdx.x), kThreads));
    if (lane == 0) shared[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      double total = shared[0];
      for (int i = 1; i < kWarps; ++i) total += shared[i];
      partial[run.first_cell + index] = total;
    }
    __syncthreads();
  }
}

}  // namespace

template <class T>
void adamw(const AdamW<T>& call, Stream stream) {
  const int64_t parts = blocks_for(call.longest, kPart);
  launch("adamw", adamw_kernel<T>, grid_of(call, parts), dim3(kThreads), 0, stream, call, parts);
}

template <class T>
void adamw_stochastic(const AdamW<T>& call, const StochasticRounding& rounding, Stream stream) {
  const int64_t parts = blocks_for(call.longest, kPart);
  launch("adamw_stochastic", stochastic_kernel<T>, grid_of(call, parts), dim3(kThreads), 0, stream,
         call, rounding, parts);
}

template <class Real>
void square_sums(double* partial, const Real* gradient, const NormRun* runs, int64_t count,
                 Stream stream) {
  ESPALIER_REQUIRE(count <= kMostBlocks, "square sums of {} runs", count);
  launch("square_sums", square_sums_kernel<Real>, dim3(static_cast<unsigned>(count)),
         dim3(kThreads), kThreads / kWarp * sizeof(double), stream, partial, gradient, runs);
}

template void adamw<float>(const AdamW<float>&, Stream);
template void adamw<bf16>(const AdamW<bf16>&, Stream);
template void adamw<fp16>(const AdamW<fp16>&, Stream);
template void adamw_stochastic<bf16>(const AdamW<bf16>&, const StochasticRounding&, Stream);
template void square_sums<float>(double*, const float*, const NormRun*, int64_t, Stream);
template void square_sums<double>(double*, const double*, const NormRun*, int64_t, Stream);

}  // namespace espalier::cuda
