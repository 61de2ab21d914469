// SPDX-License-Identifier: Apache-2.0
// Element by element, so that no result depends on how threads share the work.
#include "cuda/reduction.hpp"

#include "core/error.hpp"
#include "cuda/runs.cuh"

namespace espalier::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kQuad = 4;  // leaves read before the first addition: enough loads on their way

__device__ __forceinline__ int64_t work_item() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

/// sum = a + sum
template <int kCount, class Real>
__device__ __forceinline__ void add_left(const Real (&a)[kCount], Real (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = a[i] + sum[i];
}

/// Reads kCount elements of one array; a group or a single one.
template <class T, int kCount>
__device__ __forceinline__ void read(const T* from, Acc<T> (&x)[kCount]) {
  if constexpr (kCount == 1)
    x[0] = Acc<T>(from[0]);
  else
    load_values<T, kCount>(from, x);
}

/// The tree over up to kQuad leaves from `first` on, of the elements from `at` on.
template <class Wire, int kCount>
__device__ __forceinline__ void sum_quad(const Leaves<Wire>& leaves, int first, int count,
                                         int64_t at, Acc<Wire> (&sum)[kCount]) {
  Acc<Wire> x[kQuad][kCount] = {};
#pragma unroll
  for (int r = 0; r < kQuad; ++r)
    if (r < count) read<Wire, kCount>(leaves.at[first + r] + at, x[r]);
  if (count == 4) add_left(x[2], x[3]);
  if (count >= 2) add_left(x[0], x[1]);
  if (count == 4) add_left(x[1], x[3]);
  if (count == 3) add_left(x[1], x[2]);
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    sum[i] = count == 1 ? x[0][i] : count == 2 ? x[1][i] : count == 3 ? x[2][i] : x[3][i];
}

/// The tree over all leaves: sums of 1, 2, 4, ... quads wait until their neighbour is there, and
/// what is left is added from the right. kLevels bounds the number of quads: below 2^kLevels.
template <int kLevels, class Wire, int kCount>
__device__ __forceinline__ void sum_leaves(const Leaves<Wire>& leaves, int64_t at,
                                           Acc<Wire> (&sum)[kCount]) {
  using Real = Acc<Wire>;
  Real waiting[kLevels][kCount] = {};
  const int quads = leaves.count / kQuad, rest = leaves.count % kQuad;
  for (int q = 0; q < quads; ++q) {
    Real part[kCount];
    sum_quad(leaves, q * kQuad, kQuad, at, part);
    bool placed = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if (placed) continue;
      if ((q >> level & 1) != 0) {
        add_left(waiting[level], part);
      } else {
#pragma unroll
        for (int i = 0; i < kCount; ++i) waiting[level][i] = part[i];
        placed = true;
      }
    }
  }
  bool begun = rest > 0;
  if (begun) sum_quad(leaves, quads * kQuad, rest, at, sum);
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    if ((quads >> level & 1) == 0) continue;
    if (begun) {
      add_left(waiting[level], sum);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] = waiting[level][i];
      begun = true;
    }
  }
}

/// Elements of a group of tree_sum and convert: 16 bytes of the wider type, so that a warp's
/// accesses have no gaps in either.
template <class A, class B>
constexpr int kGroup = 16 / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));
constexpr int kTurns = 2;  // groups that a thread of convert reads before it writes the first

// Two blocks a multiprocessor, or too few reads are on their way.
template <int kLevels, class Wire, class Out>
__global__ __launch_bounds__(kThreads, 2) void tree_sum_kernel(const Leaves<Wire> leaves, Out* out,
                                                               Cut cut) {
  constexpr int kCount = kGroup<Wire, Out>;
  const int64_t item = work_item();
  if (item < cut.groups) {
    const int64_t at = cut.head + item * kCount;
    Acc<Wire> sum[kCount] = {};
    sum_leaves<kLevels>(leaves, at, sum);
    store_values<Out, kCount>(out + at, sum);
  } else if (item < cut.items(kCount)) {
    const int64_t at = cut.single(item, kCount);
    Acc<Wire> sum[1] = {};
    sum_leaves<kLevels>(leaves, at, sum);
    out[at] = rounded<Out>(sum[0]);
  }
}

template <class From, class To>
__global__ __launch_bounds__(kThreads) void convert_kernel(const From* from, To* to, Cut cut) {
  constexpr int kCount = kGroup<From, To>;
  const int64_t first = int64_t{blockIdx.x} * (kThreads * kTurns) + threadIdx.x;
  float x[kTurns][kCount];
#pragma unroll
  for (int k = 0; k < kTurns; ++k) {
    const int64_t item = first + k * kThreads;
    if (item < cut.groups) load_values<From, kCount>(from + cut.head + item * kCount, x[k]);
  }
#pragma unroll
  for (int k = 0; k < kTurns; ++k) {
    const int64_t item = first + k * kThreads;
    if (item < cut.groups) {
      store_values<To, kCount>(to + cut.head + item * kCount, x[k]);
    } else if (item < cut.items(kCount)) {
      const int64_t at = cut.single(item, kCount);
      to[at] = rounded<To>(float(from[at]));
    }
  }
}

template <class Real>
__global__ __launch_bounds__(kThreads) void add_kernel(Real* to, const Real* from, Cut cut) {
  constexpr int kCount = Vector<Real>::kSize;
  const int64_t item = work_item();
  if (item < cut.groups) {
    const int64_t at = cut.head + item * kCount;
    Vector<Real> sum = load_vector(to + at);
    const Vector<Real> x = load_vector(from + at);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum.at[i] += x.at[i];
    store_vector(to + at, sum);
  } else if (item < cut.items(kCount)) {
    const int64_t at = cut.single(item, kCount);
    to[at] += from[at];
  }
}

dim3 grid_of(const Cut& cut, int count, int turns = 1) {
  return dim3(static_cast<unsigned>(blocks_for(cut.items(count), kThreads * turns)));
}

}  // namespace

template <class Wire, class Out>
void tree_sum(const Leaves<Wire>& leaves, Out* out, int64_t size, Stream stream) {
  ESPALIER_REQUIRE(leaves.count > 0 && leaves.count <= kMostLeaves && size >= 0,
                   "a sum of {} arrays of {} elements, at most {} arrays", leaves.count, size,
                   kMostLeaves);
  if (size == 0) return;
  constexpr int kCount = kGroup<Wire, Out>;
  Cut cut = cut_in_groups<kCount>(size, leaves.at[0], out);
  for (int r = 1; r < leaves.count; ++r)
    if (!takes_groups<kCount>(leaves.at[r], cut.head)) cut = {0, 0, size};
  // The fewer sums wait, the fewer registers a thread needs.
  const auto start = [&](auto kernel) {
    launch("tree_sum", kernel, grid_of(cut, kCount), dim3(kThreads), 0, stream, leaves, out, cut);
  };
  if (leaves.count < 2 * kQuad)
    start(tree_sum_kernel<1, Wire, Out>);
  else if (leaves.count < 8 * kQuad)
    start(tree_sum_kernel<3, Wire, Out>);
  else
    start(tree_sum_kernel<6, Wire, Out>);
}

template <class From, class To>
void convert(const From* from, To* to, int64_t size, Stream stream) {
  if (size == 0) return;
  constexpr int kCount = kGroup<From, To>;
  const Cut cut = cut_in_groups<kCount>(size, from, to);
  launch("convert", convert_kernel<From, To>, grid_of(cut, kCount, kTurns), dim3(kThreads), 0,
         stream, from, to, cut);
}

template <class Real>
void add(Real* to, const Real* from, int64_t size, Stream stream) {
  if (size == 0) return;
  constexpr int kCount = Vector<Real>::kSize;
  const Cut cut = cut_in_groups<kCount>(size, to, from);
  launch("add", add_kernel<Real>, grid_of(cut, kCount), dim3(kThreads), 0, stream, to, from, cut);
}

#define ESPALIER_INSTANTIATE(Wire, Out) \
  template void tree_sum<Wire, Out>(const Leaves<Wire>&, Out*, int64_t, Stream);
ESPALIER_INSTANTIATE(float, float)
ESPALIER_INSTANTIATE(float, bf16)
ESPALIER_INSTANTIATE(float, fp16)
ESPALIER_INSTANTIATE(bf16, float)
ESPALIER_INSTANTIATE(bf16, bf16)
ESPALIER_INSTANTIATE(fp16, fp16)
ESPALIER_INSTANTIATE(double, double)
#undef ESPALIER_INSTANTIATE

#define ESPALIER_INSTANTIATE(From, To) \
  template void convert<From, To>(const From*, To*, int64_t, Stream);
ESPALIER_INSTANTIATE(float, bf16)
ESPALIER_INSTANTIATE(float, fp16)
ESPALIER_INSTANTIATE(bf16, float)
ESPALIER_INSTANTIATE(fp16, float)
ESPALIER_INSTANTIATE(bf16, fp16)
ESPALIER_INSTANTIATE(fp16, bf16)
#undef ESPALIER_INSTANTIATE

template void add<float>(float*, const float*, int64_t, Stream);
template void add<double>(double*, const double*, int64_t, Stream);

}  // namespace espalier::cuda
