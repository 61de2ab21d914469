// SPDX-License-Identifier: Apache-2.0
// What cuda/launch.cuh expects of src/device, for test programs of kernels alone.
#include <fmt/format.h>

#include "core/error.hpp"
#include "emulator/kernel.hpp"

namespace espalier::cuda {

void fail(const char* what, const char* error) {
  throw InternalError(fmt::format("{}: {}", what, error));
}

}  // namespace espalier::cuda
