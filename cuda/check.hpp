// SPDX-License-Identifier: Apache-2.0
// Turns errors of the CUDA runtime into exceptions.
#pragma once

#include <cuda_runtime.h>

namespace espalier::cuda {

/// Throws an InternalError that names the kernel or call and the runtime's words. Linked from
/// src/device.
[[noreturn]] void fail(const char* what, const char* error);

inline void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) fail(what, cudaGetErrorString(code));
}

}  // namespace espalier::cuda
