// SPDX-License-Identifier: Apache-2.0
// Emulated device: the forms of cuda/launch.cuh.
#pragma once

#include <tuple>

#include "cuda/stream.hpp"
#include "emulator/engine.hpp"
#include "emulator/enqueue.hpp"
#include "emulator/include/cuda_runtime.h"

namespace espalier::cuda {

[[noreturn]] void fail(const char* what, const char* error);

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(emulator::shared_memory_base());
}

template <class... P, class... A>
void launch(const char* label, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
            Stream stream, A... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  if (const char* const reason = emulator::refuse_launch(grid, block, shared_bytes))
    fail(label, reason);
  const std::tuple<P...> given{P(arguments)...};  // as of now, like CUDA's
  emulator::enqueue(
      stream,
      [=] {
        emulator::run_kernel(label, grid, block, shared_bytes, [&] { std::apply(kernel, given); });
      },
      label);
}

}  // namespace espalier::cuda
