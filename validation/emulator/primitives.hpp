// SPDX-License-Identifier: Apache-2.0
// Emulated device: the forms of cuda/primitives.cuh, which documents them.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include "emulator/kernel.hpp"
#include "tensor/types.hpp"

namespace espalier::emulator {

struct MmaSlot {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
};
template <class T>
void finish_mma(void* const* slots);  // bf16, fp16

struct MatrixSlot {
  uint32_t* r;
  const uint16_t* row;
};
void finish_load_matrices(void* const* slots);
void finish_load_matrices_transposed(void* const* slots);
/// Ends the process unless the row of 8 values lies in the block's shared memory, 16-byte aligned.
void check_matrix_row(const void* row);

/// Ends the process unless the address is a multiple of `bytes`.
inline void check_vector_address(const void* address, size_t bytes = 16) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0)
    die("a vector of " + std::to_string(bytes) + " bytes is moved at an address that is no " +
        "multiple of that");
}

template <class T>
float widened(uint32_t half) {
  T value;
  value.bits = static_cast<uint16_t>(half);
  return static_cast<float>(value);
}

}  // namespace espalier::emulator

namespace espalier::cuda {

template <class T>
uint32_t pack2(float low, float high) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, fp16>, "16-bit types only");
  return uint32_t{T(low).bits} | uint32_t{T(high).bits} << 16;
}
template <class T>
float2 unpack2(uint32_t word) {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, fp16>, "16-bit types only");
  return make_float2(emulator::widened<T>(word & 0xffffu), emulator::widened<T>(word >> 16));
}

inline int thread_index_anew() {
  return static_cast<int>(threadIdx.x);
}
inline int block_index_anew() {
  return static_cast<int>(blockIdx.x);
}

inline float exp2_approximate(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

inline float reciprocal_approximate(float x) {
  const float y = 1.0f / x;
  return std::fabs(y) < 0x1p-126f ? std::copysign(0.0f, y) : y;
}

template <class T>
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, ESPALIER_SITE) {
  emulator::MmaSlot slot{d, a, {b0, b1}};
  emulator::meet_warp("mma_16x8x16", ~0u, &slot, &emulator::finish_mma<T>, {file, line});
}

inline void load_matrices(uint32_t (&r)[4], const void* row, ESPALIER_SITE) {
  emulator::check_matrix_row(row);
  emulator::MatrixSlot slot{r, static_cast<const uint16_t*>(row)};
  emulator::meet_warp("load_matrices", ~0u, &slot, &emulator::finish_load_matrices, {file, line});
}
inline void load_matrices_transposed(uint32_t (&r)[4], const void* row, ESPALIER_SITE) {
  emulator::check_matrix_row(row);
  emulator::MatrixSlot slot{r, static_cast<const uint16_t*>(row)};
  emulator::meet_warp("load_matrices_transposed", ~0u, &slot,
                      &emulator::finish_load_matrices_transposed, {file, line});
}

inline void copy_async_16(void* to, const void* from, bool valid) {
  emulator::copy_late(to, from, valid);
}
inline void commit_copies() {
  emulator::close_copies();
}
template <int kPending>
void wait_for_copies() {
  emulator::wait_copies(kPending);
}

}  // namespace espalier::cuda
