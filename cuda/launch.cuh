// SPDX-License-Identifier: Apache-2.0
// The one way kernels are started, and their shared memory. A build that emulates the device
// (validation/emulator) brings its own forms of the same functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "cuda/check.hpp"
#include "cuda/stream.hpp"

#ifdef ESPALIER_EMULATED_DEVICE
#include "emulator/kernel.hpp"
#endif

namespace espalier::cuda {

#ifndef ESPALIER_EMULATED_DEVICE

/// The block's dynamic shared memory; a kernel has no other. 128-byte aligned, not cleared.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(128) unsigned char espalier_shared_memory[];
  return reinterpret_cast<T*>(espalier_shared_memory);
}

/// Starts kernel(arguments...) with `shared_bytes` of dynamic shared memory. `label` names it in
/// errors.
/// Errors  InternalError if the launch is refused
template <class... P, class... A>
void launch(const char* label, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            Stream stream, A... arguments) {
  constexpr size_t kPlainShared = 48 * 1024;  // more has to be asked for
  if (shared_bytes > kPlainShared)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          label);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  // The launch's own answer: cudaGetLastError() would also tell of errors that others left behind.
  std::tuple<P...> given{P(arguments)...};
  std::apply(
      [&](P&... each) {
        void* addresses[] = {const_cast<void*>(static_cast<const void*>(&each))...};
        check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, addresses,
                               shared_bytes, stream),
              label);
      },
      given);
}

#endif

/// ceil(a / b)
constexpr int64_t blocks_for(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace espalier::cuda
