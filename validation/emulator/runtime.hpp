// SPDX-License-Identifier: Apache-2.0
// Emulated device: what the files of the runtime share.
#pragma once

#include <mutex>

#include "emulator/streams.hpp"

namespace espalier::emulator {

/// Notes the error for cudaGetLastError() and returns it.
cudaError_t fail_with(cudaError_t error);

/// The lock of the runtime; a call from inside an operation is refused, as CUDA refuses it.
class Guard {
 public:
  Guard() : lock_(lock_of_runtime()) {}
  cudaError_t refused() const { return inside_operation() ? cudaErrorNotPermitted : cudaSuccess; }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace espalier::emulator
