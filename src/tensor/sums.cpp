// SPDX-License-Identifier: Apache-2.0
#include "tensor/sums.hpp"

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

template <class T>
void round_to(T* to, const Acc<T>* from, int64_t size) {
  if constexpr (kHasTuned<T> && !std::is_same_v<T, float>)
    if (takes_tuned<T>()) return cuda::convert(from, to, size, tuned_stream());
  for_each(
      "sums.round", size, KOKKOS_LAMBDA(const int64_t i) { to[i] = T(from[i]); });
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
template void round_to<float>(float*, const float*, int64_t);
template void round_to<double>(double*, const double*, int64_t);
template void round_to<bf16>(bf16*, const float*, int64_t);
template void round_to<fp16>(fp16*, const float*, int64_t);

}  // namespace espalier
