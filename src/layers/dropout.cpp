// SPDX-License-Identifier: Apache-2.0
#include "layers/dropout.hpp"

#include "layers/instantiate.hpp"

namespace espalier {

template <class T>
void apply_dropout(const Mat<T>& out, const Mat<const T>& in, const DropoutMask& mask,
                   const int64_t* token_index) {
  using Real = Acc<T>;
  const int64_t n = in.extent(1);
  ESPALIER_REQUIRE(out.extent(0) == in.extent(0) && out.extent(1) == in.extent(1),
                   "dropout of [{}, {}] into [{}, {}]", in.extent(0), n, out.extent(0),
                   out.extent(1));
  require_token_index(mask, token_index, "apply_dropout");
  const DropoutFactors<Real> factors(mask);
  const T* from = in.data();
  T* to = out.data();
  if (!mask.active() && from == to) return;
  for_each_row(
      "dropout", in.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const T* x = from + row.index() * n;
        T* y = to + row.index() * n;
        if (!factors.active()) {
          row.each(n, [=](int64_t j) { y[j] = x[j]; });
          return;
        }
        const auto first = static_cast<uint64_t>(token_index[row.index()] * n);
        factors.each(row, first, n, [=](int64_t j, Real f) { y[j] = T(Real(x[j]) * f); });
      });
}

#define ESPALIER_INSTANTIATE(T)                                                          \
  template void apply_dropout<T>(const Mat<T>&, const Mat<const T>&, const DropoutMask&, \
                                 const int64_t*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
