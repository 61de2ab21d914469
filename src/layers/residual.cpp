// SPDX-License-Identifier: Apache-2.0
#include "layers/residual.hpp"

#include "cuda/norm.hpp"
#include "layers/instantiate.hpp"
#include "layers/residual_row.hpp"
#include "tensor/tuned.hpp"

namespace espalier {

template <class T>
void residual_add(const Mat<T>& x, const Mat<const T>& stream, const Mat<const T>& delta,
                  const Vec<const T>& delta_bias, const DropoutMask& mask,
                  const int64_t* token_index) {
  const residual_detail::Addition<T> add(x, stream, delta, delta_bias, mask, token_index);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>() && !mask.active())
      return cuda::residual_add(x.data(), stream.data(), delta.data(), delta_bias.data(),
                                static_cast<int64_t>(x.extent(0)),
                                static_cast<int64_t>(x.extent(1)), tuned_stream());
  for_each_row(
      "residual.add", x.extent(0), KOKKOS_LAMBDA(const Row& row) { add.row(row); });
}

#define ESPALIER_INSTANTIATE(T)                                                          \
  template void residual_add<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, \
                                const Vec<const T>&, const DropoutMask&, const int64_t*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
