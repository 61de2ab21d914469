// SPDX-License-Identifier: Apache-2.0
// What kernels share: packed 16-bit values, warp sums, and the instructions that C++ has no words
// for (tensor cores, matrix loads, asynchronous copies; compute capability 8.0 and later).
// Fragment layouts: PTX ISA 8.x, "Matrix fragments for mma.m16n8k16 with floating point type".
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/launch.cuh"
#include "tensor/types.hpp"

#ifdef ESPALIER_EMULATED_DEVICE
#include "emulator/primitives.hpp"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace espalier::cuda {

/// Two values rounded to nearest even, `low` in the lower half of the word.
template <class T>
__device__ __forceinline__ uint32_t pack2(float low, float high) {
  if constexpr (std::is_same_v<T, bf16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    static_assert(std::is_same_v<T, fp16>, "16-bit types only");
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}
template <class T>
__device__ __forceinline__ float2 unpack2(uint32_t word) {
  if constexpr (std::is_same_v<T, bf16>) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
  } else {
    static_assert(std::is_same_v<T, fp16>, "16-bit types only");
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  }
}

/// threadIdx.x and blockIdx.x, read anew: what is computed from them need not stay in registers
/// over a long loop, whereas the compiler would keep everything that depends on the plain names.
__device__ __forceinline__ int thread_index_anew() {
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}
__device__ __forceinline__ int block_index_anew() {
  int x;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
  return x;
}

/// 2^x, relative error about 2^-22; subnormal results are zero.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, relative error about 2^-23; subnormal results are zero, of infinity 0.
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// d += A B for one warp: A 16 x 16 (row), B 16 x 8 (column), d 16 x 8 in fp32. With g = lane / 4,
/// c = 2 (lane % 4), pairs packed low first:
///   a[0] A(g, c)  a[1] A(g + 8, c)  a[2] A(g, c + 8)  a[3] A(g + 8, c + 8)
///   b[0] B(c, g)  b[1] B(c + 8, g)                  (pairs run down the column: k)
///   d[0], d[1] D(g, c), D(g, c + 1)   d[2], d[3] D(g + 8, c), D(g + 8, c + 1)
template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  if constexpr (std::is_same_v<T, bf16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of 16-bit values from shared memory: lane l names row l % 8 of matrix l / 8
/// (8 values, 16-byte aligned). Afterwards r[i] of lane l holds elements (l / 4, 2 (l % 4)) and the
/// next of matrix i; transposed: elements (2 (l % 4), l / 4) and the one below.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// Starts to copy 16 bytes from global to shared memory, both 16-byte aligned; zeros where not
/// `valid` (then `from` is not read, but must be a global address).
__device__ __forceinline__ void copy_async_16(void* to, const void* from, bool valid) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(address), "l"(from), "r"(bytes)
               : "memory");
}
/// Closes a group of copies of this thread; wait_for_copies<n> returns when at most the n latest
/// groups are under way. Other threads' copies need a barrier on top.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

}  // namespace espalier::cuda
#endif

namespace espalier::cuda {

constexpr int kWarp = 32;
constexpr unsigned kFullWarp = 0xffffffffu;

/// Sum, maximum over the lanes of a warp, in every lane the same bits. All lanes take part.
template <class Real>
__device__ __forceinline__ Real warp_sum(Real x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kFullWarp, x, step);
  return x;
}
template <class Real>
__device__ __forceinline__ Real warp_max(Real x) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Real other = __shfl_xor_sync(kFullWarp, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/// 16 bytes of elements, read and written as one word; addresses are 16-byte aligned.
template <class T>
struct alignas(16) Vector {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  T at[kSize];
};
template <class T>
__device__ __forceinline__ Vector<T> load_vector(const T* from) {
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::check_vector_address(from);
#endif
  Vector<T> v;
  *reinterpret_cast<uint4*>(&v) = *reinterpret_cast<const uint4*>(from);
  return v;
}
template <class T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T>& v) {
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::check_vector_address(to);
#endif
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&v);
}

}  // namespace espalier::cuda
