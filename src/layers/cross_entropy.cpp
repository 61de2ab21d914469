// SPDX-License-Identifier: Apache-2.0
#include "layers/cross_entropy.hpp"

#include <cmath>

#include "cuda/classifier.hpp"
#include "layers/exponentials.hpp"
#include "layers/instantiate.hpp"
#include "tensor/tuned.hpp"

namespace espalier {

template <class T>
void cross_entropy(const Mat<T>& logits, const int32_t* targets, Acc<T>* losses, double logit_scale,
                   double gradient_scale, Gradient gradient) {
  using Real = Acc<T>;
  const int64_t n = logits.extent(1);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::cross_entropy(
          logits.data(), targets, losses, logits.extent(0), n, static_cast<float>(logit_scale),
          static_cast<float>(gradient_scale), gradient == Gradient::in_place, tuned_stream());
  const Real scale = static_cast<Real>(logit_scale);
  const Real slope = static_cast<Real>(gradient_scale * logit_scale);
  const bool wants_gradient = gradient == Gradient::in_place;
  T* values = logits.data();
  for_each_row(
      "cross_entropy", logits.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index();
        T* z = values + t * n;
        const int32_t target = targets[t];
        if (target < 0) {
          losses[t] = 0;
          if (wants_gradient) row.each(n, [=](int64_t v) { z[v] = T(Real(0)); });
          return;
        }
        const Real chosen = Real(z[target]) * scale;
        const Real greatest = greatest_logit<T>(row, z, n) * scale;
        const Real sum = exponentials<T>(row, z, n, scale, greatest);
        losses[t] = greatest + std::log(sum) - chosen;
        if (!wants_gradient) return;
        scale_exponentials<T>(row, z, n, scale, greatest, greatest, slope / sum);
        // For 16-bit types p - 1 must not be formed from the rounded p where it is near 1.
        const Real p = exp_value(chosen - greatest) / sum;
        z[target] = T((p - Real(1)) * slope);
      });
}

#define ESPALIER_INSTANTIATE(T) \
  template void cross_entropy<T>(const Mat<T>&, const int32_t*, Acc<T>*, double, double, Gradient);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
