// SPDX-License-Identifier: Apache-2.0
// How portable kernels are started: on the current stream of the device, or at once on the host.
#pragma once

#include "tensor/views.hpp"

#ifdef ESPALIER_EMULATED_DEVICE
#include "emulator/enqueue.hpp"
#endif

namespace espalier {

/// The Kokkos instance of the current stream.
const Exec& exec();

namespace launch_detail {

/// Bytes that a body may capture. Kokkos passes kernels of 512 bytes and more, its own 152 of a
/// team included, through one constant buffer: the host waits for it, and no graph can replay it.
constexpr size_t kMostCaptured = 352;

/// Starts Kokkos::parallel_for.
template <class Policy, class Body>
void start(const char* label, const Policy& policy, const Body& body) {
  static_assert(sizeof(Body) <= kMostCaptured, "pass what the kernel needs by fewer values");
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::enqueue(
      device::Stream::current().handle(), [=] { Kokkos::parallel_for(label, policy, body); },
      label);
#else
  Kokkos::parallel_for(label, policy, body);
#endif
}

}  // namespace launch_detail

using IndexRange = Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>;

/// Runs body(i) for i in [first, last); `label` names the kernel for profilers. `body` is a
/// KOKKOS_LAMBDA; iterations are independent.
template <class Body>
void for_each(const char* label, int64_t first, int64_t last, const Body& body) {
  if (last > first) launch_detail::start(label, IndexRange(exec(), first, last), body);
}
template <class Body>
void for_each(const char* label, int64_t count, const Body& body) {
  for_each(label, int64_t{0}, count, body);
}

}  // namespace espalier
