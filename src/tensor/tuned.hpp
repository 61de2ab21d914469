// SPDX-License-Identifier: Apache-2.0
// When a function takes its kernel from cuda/ instead of its portable form.
#pragma once

#include <type_traits>

#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

template <class T>
inline constexpr bool kIs16Bit = std::is_same_v<T, bf16> || std::is_same_v<T, fp16>;

/// Element types of the tuned kernels; fp64 serves tests alone.
template <class T>
inline constexpr bool kHasTuned = device::kPresent && !std::is_same_v<T, double>;

template <class T>
bool takes_tuned() {
  return kHasTuned<T> && device::uses_tuned_kernels();
}

inline cuda::Stream tuned_stream() {
  return device::Stream::current().handle();
}

}  // namespace espalier
