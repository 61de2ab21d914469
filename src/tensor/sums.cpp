// SPDX-License-Identifier: Apache-2.0
#include "tensor/sums.hpp"

#include <type_traits>

#include "cuda/reduction.hpp"
#include "tensor/launch.hpp"
#include "tensor/tuned.hpp"

namespace espalier {

template <class Real>
void add_to(Real* to, const Real* from, int64_t size) {
  if constexpr (device::kPresent)
    if (device::uses_tuned_kernels()) return cuda::add(to, from, size, tuned_stream());
  for_each(
      "sums.add", size, KOKKOS_LAMBDA(const int64_t i) { to[i] += from[i]; });
}

template <class Real>
void add_from_left(Real* to, const Real* from, int64_t size) {
  for_each(
      "sums.add_from_left", size, KOKKOS_LAMBDA(const int64_t i) { to[i] = from[i] + to[i]; });
}

template <class Real>
void multiply_by(Real* to, Real factor, int64_t size) {
  for_each(
      "sums.multiply", size, KOKKOS_LAMBDA(const int64_t i) { to[i] *= factor; });
}

template <class Real>
void make_sum_of_both(Real* first, Real* second, int64_t size) {
  for_each(
      "sums.both", size, KOKKOS_LAMBDA(const int64_t i) {
        const Real sum = first[i] + second[i];
        first[i] = sum;
        second[i] = sum;
      });
}

template <class From, class To>
void round_on_device(const From* from, To* to, int64_t size) {
  for_each(
      "sums.round", size, KOKKOS_LAMBDA(const int64_t i) { to[i] = static_cast<To>(from[i]); });
}

template <class From, class To>
void round_values(const From* from, To* to, int64_t size) {
  if constexpr (!device::kPresent) {
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) to[i] = static_cast<To>(from[i]);
  } else if constexpr (std::is_same_v<From, To>) {
    device::copy(to, from, size * static_cast<int64_t>(sizeof(To)));
  } else if (size > 0) {
    if (device::uses_tuned_kernels())
      cuda::convert(from, to, size, tuned_stream());
    else
      round_on_device(from, to, size);
  }
}

template <class Real>
void sum_of_leaves(Real* result, Real* partials, int64_t leaves, int64_t width) {
  for_each(
      "sums.leaves", width, KOKKOS_LAMBDA(const int64_t j) {
        for (int64_t step = 1; step < leaves; step *= 2)
          for (int64_t i = 0; i + step < leaves; i += 2 * step)
            partials[i * width + j] += partials[(i + step) * width + j];
        result[j] = partials[j];
      });
}

#define ESPALIER_INSTANTIATE(Real)                                \
  template void add_to<Real>(Real*, const Real*, int64_t);        \
  template void add_from_left<Real>(Real*, const Real*, int64_t); \
  template void multiply_by<Real>(Real*, Real, int64_t);          \
  template void make_sum_of_both<Real>(Real*, Real*, int64_t);    \
  template void sum_of_leaves<Real>(Real*, Real*, int64_t, int64_t);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
#define ESPALIER_INSTANTIATE_ROUND(From, To) \
  template void round_values<From, To>(const From*, To*, int64_t);
ESPALIER_INSTANTIATE_ROUND(float, float)
ESPALIER_INSTANTIATE_ROUND(double, double)
ESPALIER_INSTANTIATE_ROUND(bf16, bf16)
ESPALIER_INSTANTIATE_ROUND(fp16, fp16)
ESPALIER_INSTANTIATE_ROUND(float, bf16)
ESPALIER_INSTANTIATE_ROUND(bf16, float)
ESPALIER_INSTANTIATE_ROUND(float, fp16)

}  // namespace espalier
