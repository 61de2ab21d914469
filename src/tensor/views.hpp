// SPDX-License-Identifier: Apache-2.0
// The views that all mathematics works on, and the owning buffers behind them.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

namespace espalier {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

/// Row-major views that own nothing; the memory belongs to a Buffer or an Arena.
template <class T>
using Vec = Kokkos::View<T*, Kokkos::LayoutRight, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
template <class T>
using Mat = Kokkos::View<T**, Kokkos::LayoutRight, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Owning flat storage.
template <class T>
using Buffer = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;

/// True where kernels run on the processor that called them.
constexpr bool kOnHost = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

}  // namespace espalier
