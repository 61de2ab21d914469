// SPDX-License-Identifier: Apache-2.0
// The clock that durations are measured with.
#pragma once

#include <chrono>

namespace espalier {

/// Seconds of a steady clock; only differences mean anything.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace espalier
