// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding.hpp"

#include "core/error.hpp"
#include "layers/instantiate.hpp"
#include "tensor/rows.hpp"

namespace espalier {

template <class T>
void embedding_forward(const Mat<T>& x, const Mat<const T>& token_table,
                       const Mat<const T>& position_table, const int32_t* tokens,
                       const int32_t* positions) {
  using Real = Acc<T>;
  const int64_t n = x.extent(1);
  ESPALIER_REQUIRE(token_table.extent(1) == x.extent(1), "embedding [{}, {}] into x [{}, {}]",
                   token_table.extent(0), token_table.extent(1), x.extent(0), n);
  T* out = x.data();
  const T* token_rows = token_table.data();
  const T* position_rows = position_table.data();
  for_each_row(
      "embedding.forward", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index();
        const T* e = token_rows + int64_t{tokens[t]} * n;
        T* target = out + t * n;
        if (position_rows != nullptr) {
          const T* p = position_rows + int64_t{positions[t]} * n;
          row.each(n, [=](int64_t j) { target[j] = T(Real(e[j]) + Real(p[j])); });
        } else {
          row.each(n, [=](int64_t j) { target[j] = e[j]; });
        }
      });
}

template <class T>
void embedding_backward(const Mat<Acc<T>>& d_table, const Mat<const T>& dx, const int32_t* index) {
  using Real = Acc<T>;
  const int64_t n = dx.extent(1), tokens = dx.extent(0);
  ESPALIER_REQUIRE(d_table.extent(1) == dx.extent(1), "embedding gradient [{}, {}], dx [{}, {}]",
                   d_table.extent(0), d_table.extent(1), tokens, n);
  Real* table = d_table.data();
  const T* gradient = dx.data();
  // Tiles of columns are independent, tokens within a tile go in order: parallel and exact.
  for_each_column_tile(
      "embedding.backward", n, KOKKOS_LAMBDA(const int64_t first, const int64_t last) {
        for (int64_t t = 0; t < tokens; ++t) {
          Real* row = table + int64_t{index[t]} * n;
          const T* g = gradient + t * n;
          for (int64_t j = first; j < last; ++j) row[j] += Real(g[j]);
        }
      });
}

#define ESPALIER_INSTANTIATE(T)                                                               \
  template void embedding_forward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, \
                                     const int32_t*, const int32_t*);                         \
  template void embedding_backward<T>(const Mat<Acc<T>>&, const Mat<const T>&, const int32_t*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
