// SPDX-License-Identifier: Apache-2.0
// Emulated device: what the portable kernels and the device room need of it, without CUDA's names.
#pragma once

#include <functional>
#include <string>

#include "cuda/stream.hpp"

namespace espalier::emulator {

/// Puts `work` on the stream. It runs when the host waits for it or for something behind it, may
/// touch device memory, and must not call the runtime. Recorded like a kernel while the stream is
/// captured, and then run at every launch of the graph.
/// Errors  ends the process if the stream is not one
void enqueue(cuda::Stream stream, std::function<void()> work, const char* label);

/// Names an allocation of device memory in reports of faults.
void name_memory(const void* data, const std::string& name);

/// How work on several streams is ordered, within what events demand.
enum class Order {
  lazy,    ///< nothing runs that the host does not wait for
  random,  ///< what the host waits for in random order, now and then something else as well
  eager,   ///< everything runs at once, so that other streams get ahead
};
/// The start value is ESPALIER_EMULATOR_ORDER, or random.
void set_order(Order order);

/// Operations on all streams that have not run.
int pending_operations();

}  // namespace espalier::emulator
