// SPDX-License-Identifier: Apache-2.0
// Emulated device: the words of the device language. Calls at which threads meet note the caller's
// line by default arguments.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/engine.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define ESPALIER_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// The block

inline void __syncthreads(ESPALIER_SITE) {
  espalier::emulator::meet_block(0, {file, line});
}
inline int __syncthreads_count(int predicate, ESPALIER_SITE) {
  return espalier::emulator::meet_block(predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, ESPALIER_SITE) {
  return espalier::emulator::meet_block(predicate != 0, {file, line}) != 0;
}
inline int __syncthreads_and(int predicate, ESPALIER_SITE) {
  return espalier::emulator::meet_block(predicate == 0, {file, line}) == 0;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() {
  espalier::emulator::die("__trap()");
}

// The warp

namespace espalier::emulator {

/// How each lane chooses whose value it takes.
enum class Shuffle { any, exclusive_or, down, up };

template <class T>
struct ShuffleSlot {
  T value, result;
  int argument, width;
  Shuffle kind;
};
template <class T>
void finish_shuffle(void* const* slots) {
  for (int lane = 0; lane < kLanes; ++lane) {
    auto& own = *static_cast<ShuffleSlot<T>*>(slots[lane]);
    const int first = lane / own.width * own.width, end = first + own.width;
    int from = 0;
    switch (own.kind) {
      case Shuffle::any: from = first + (own.argument & (own.width - 1)); break;
      case Shuffle::exclusive_or: from = lane ^ own.argument; break;
      case Shuffle::down: from = lane + own.argument; break;
      case Shuffle::up: from = lane - own.argument; break;
    }
    // Beyond its part of the warp a lane gets its own value.
    if (own.kind == Shuffle::up ? from < first : from >= end) from = lane;
    own.result = static_cast<const ShuffleSlot<T>*>(slots[from])->value;
  }
}
template <class T>
T shuffle(const char* what, Shuffle kind, unsigned mask, T value, int argument, int width,
          Site site) {
  static_assert(std::is_arithmetic_v<T>, "shuffles move numbers");
  if (width <= 0 || width > kLanes || (width & (width - 1)) != 0)
    die(std::string(what) + ": the width is not a power of two up to 32");
  ShuffleSlot<T> slot{value, value, argument, width, kind};
  meet_warp(what, mask, &slot, &finish_shuffle<T>, site);
  return slot.result;
}

struct VoteSlot {
  bool value;
  unsigned result;
};
unsigned vote(const char* what, unsigned mask, bool value, Site site);
void join_warp(unsigned mask, Site site);

}  // namespace espalier::emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, ESPALIER_SITE) {
  using espalier::emulator::Shuffle;
  return espalier::emulator::shuffle("__shfl_sync", Shuffle::any, mask, value, lane, width,
                                     {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, ESPALIER_SITE) {
  using espalier::emulator::Shuffle;
  return espalier::emulator::shuffle("__shfl_xor_sync", Shuffle::exclusive_or, mask, value, bits,
                                     width, {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned step, int width = 32, ESPALIER_SITE) {
  using espalier::emulator::Shuffle;
  return espalier::emulator::shuffle("__shfl_down_sync", Shuffle::down, mask, value,
                                     static_cast<int>(step), width, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step, int width = 32, ESPALIER_SITE) {
  using espalier::emulator::Shuffle;
  return espalier::emulator::shuffle("__shfl_up_sync", Shuffle::up, mask, value,
                                     static_cast<int>(step), width, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, ESPALIER_SITE) {
  return espalier::emulator::vote("__ballot_sync", mask, predicate != 0, {file, line});
}
inline int __any_sync(unsigned mask, int predicate, ESPALIER_SITE) {
  return espalier::emulator::vote("__any_sync", mask, predicate != 0, {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int predicate, ESPALIER_SITE) {
  return espalier::emulator::vote("__all_sync", mask, predicate != 0, {file, line}) == ~0u;
}
inline void __syncwarp(unsigned mask = ~0u, ESPALIER_SITE) {
  espalier::emulator::join_warp(mask, {file, line});
}

// Memory. Threads change places only where they meet, so plain arithmetic is atomic.

template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T, class U>
T atomicAdd(T* at, U value) {
  static_assert(std::is_integral_v<T>, "no float atomics: their order would decide the bits");
  const T before = *at;
  *at = static_cast<T>(before + static_cast<T>(value));
  return before;
}
template <class T, class U>
T atomicMax(T* at, U value) {
  static_assert(std::is_integral_v<T>);
  const T before = *at;
  if (static_cast<T>(value) > before) *at = static_cast<T>(value);
  return before;
}
template <class T, class U>
T atomicOr(T* at, U value) {
  static_assert(std::is_integral_v<T>);
  const T before = *at;
  *at = static_cast<T>(before | static_cast<T>(value));
  return before;
}

// Bits

inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64);
}
namespace espalier::emulator {
template <class To, class From>
To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
}  // namespace espalier::emulator
inline unsigned __float_as_uint(float x) {
  return espalier::emulator::bits_as<unsigned>(x);
}
inline int __float_as_int(float x) {
  return espalier::emulator::bits_as<int>(x);
}
inline float __uint_as_float(unsigned x) {
  return espalier::emulator::bits_as<float>(x);
}
inline float __int_as_float(int x) {
  return espalier::emulator::bits_as<float>(x);
}
inline long long __double_as_longlong(double x) {
  return espalier::emulator::bits_as<long long>(x);
}
inline double __longlong_as_double(long long x) {
  return espalier::emulator::bits_as<double>(x);
}

// Mathematics; the fast forms are the accurate ones here, so tests must allow for CUDA's errors.

inline float __expf(float x) {
  return std::exp(x);
}
inline float __exp2f(float x) {
  return std::exp2(x);
}
inline float __logf(float x) {
  return std::log(x);
}
inline float __log2f(float x) {
  return std::log2(x);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __frcp_rn(float x) {
  return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float rsqrtf(float x) {
  return __frsqrt_rn(x);
}
inline double rsqrt(double x) {
  return 1.0 / std::sqrt(x);
}
// Never contracted into a fused multiply-add: emulated kernels are compiled with -ffp-contract=off.
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline int __float2int_rn(float x) {
  return static_cast<int>(std::nearbyint(x));
}
inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
