// SPDX-License-Identifier: Apache-2.0
// The views that all mathematics works on. They own nothing: memory belongs to a Buffer or an
// Arena.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/buffer.hpp"

namespace espalier {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

/// Row-major.
template <class T>
using Vec = Kokkos::View<T*, Kokkos::LayoutRight, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class T>
using Mat = Kokkos::View<T**, Kokkos::LayoutRight, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <class T>
int64_t bytes_of(const Mat<T>& m) {
  return static_cast<int64_t>(m.size() * sizeof(T));
}

/// True where kernels run on the processor that called them, at once.
constexpr bool kOnHost = !device::kPresent;
#if defined(ESPALIER_DEVICE) && !defined(ESPALIER_EMULATED_DEVICE)
static_assert(!Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible,
              "a build for a GPU needs a Kokkos whose default execution space is CUDA");
#endif

/// A list where kernels can read it.
template <class T>
Buffer<T> device_copy(const std::string& label, const std::vector<T>& list) {
  const auto size = static_cast<int64_t>(list.size());
  Buffer<T> buffer(label, size, Contents::undefined);
  device::copy_and_wait(buffer.data(), list.data(), buffer.bytes());
  return buffer;
}

/// Device memory as a list on the host; waits for the current stream.
template <class T>
std::vector<T> host_copy(const T* data, int64_t size) {
  std::vector<T> list(static_cast<size_t>(size));
  device::copy_and_wait(list.data(), data, size * static_cast<int64_t>(sizeof(T)));
  return list;
}

}  // namespace espalier
