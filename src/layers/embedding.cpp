// SPDX-License-Identifier: Apache-2.0
#include "layers/embedding.hpp"

#include "core/error.hpp"
#include "cuda/pointwise.hpp"
#include "layers/instantiate.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {

namespace {

// target = dropout(e + p), p null where there is no position table. Shared by the fused form and
// the one that adds positions later.
template <class T>
KOKKOS_INLINE_FUNCTION void embed_row(const Row& row, T* target, const T* e, const T* p, int64_t n,
                                      const DropoutFactors<Acc<T>>& factors,
                                      const int64_t* token_index) {
  using Real = Acc<T>;
  if (factors.active()) {
    const auto index = static_cast<uint64_t>(token_index[row.index()] * n);
    if (p != nullptr)
      factors.each(row, index, n,
                   [=](int64_t j, Real f) { target[j] = T((Real(e[j]) + Real(p[j])) * f); });
    else
      factors.each(row, index, n, [=](int64_t j, Real f) { target[j] = T(Real(e[j]) * f); });
  } else if (p != nullptr) {
    row.each(n, [=](int64_t j) { target[j] = T(Real(e[j]) + Real(p[j])); });
  } else {
    row.each(n, [=](int64_t j) { target[j] = e[j]; });
  }
}

}  // namespace

template <class T>
void embedding_forward(const Mat<T>& x, const Mat<const T>& token_table,
                       const Mat<const T>& position_table, const int32_t* tokens,
                       const int32_t* positions, int64_t first, const DropoutMask& mask,
                       const int64_t* token_index) {
  const int64_t n = x.extent(1), rows = token_table.extent(0);
  ESPALIER_REQUIRE(token_table.extent(1) == x.extent(1), "embedding [{}, {}] into x [{}, {}]", rows,
                   token_table.extent(1), x.extent(0), n);
  require_token_index(mask, token_index, "embedding_forward");
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>() && !mask.active()) {
      cuda::EmbeddingForward<T> call;
      call.x = x.data();
      call.table = token_table.data();
      call.position_table = position_table.data();
      call.tokens = tokens;
      call.positions = positions;
      call.rows = x.extent(0);
      call.columns = n;
      call.entries = rows;
      call.first = first;
      return cuda::embedding_forward(call, tuned_stream());
    }
  const DropoutFactors<Acc<T>> factors(mask);
  T* out = x.data();
  const T* token_rows = token_table.data();
  const T* position_rows = position_table.data();
  for_each_row(
      "embedding.forward", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index(), entry = int64_t{tokens[t]} - first;
        T* target = out + t * n;
        if (entry < 0 || entry >= rows) {
          row.each(n, [=](int64_t j) { target[j] = T(Acc<T>(-0.0)); });
          return;
        }
        const T* p = position_rows == nullptr ? nullptr : position_rows + int64_t{positions[t]} * n;
        embed_row<T>(row, target, token_rows + entry * n, p, n, factors, token_index);
      });
}

template <class T>
void add_positions(const Mat<T>& x, const Mat<const T>& position_table, const int32_t* positions,
                   const DropoutMask& mask, const int64_t* token_index) {
  const int64_t n = x.extent(1);
  const T* position_rows = position_table.data();
  ESPALIER_REQUIRE(position_rows == nullptr || position_table.extent(1) == x.extent(1),
                   "positions [{}, {}] onto x [{}, {}]", position_table.extent(0),
                   position_table.extent(1), x.extent(0), n);
  require_token_index(mask, token_index, "add_positions");
  const DropoutFactors<Acc<T>> factors(mask);
  if (position_rows == nullptr && !mask.active()) return;
  T* out = x.data();
  for_each_row(
      "embedding.positions", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index();
        T* target = out + t * n;
        const T* p = position_rows == nullptr ? nullptr : position_rows + int64_t{positions[t]} * n;
        embed_row<T>(row, target, target, p, n, factors, token_index);
      });
}

template <class T>
void embedding_backward(const Mat<Acc<T>>& d_table, const Mat<const T>& dx, const int32_t* index,
                        int64_t first) {
  using Real = Acc<T>;
  const int64_t n = dx.extent(1), tokens = dx.extent(0), rows = d_table.extent(0);
  ESPALIER_REQUIRE(d_table.extent(1) == dx.extent(1), "embedding gradient [{}, {}], dx [{}, {}]",
                   rows, d_table.extent(1), tokens, n);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::embedding_backward(d_table.data(), dx.data(), index, tokens, n, rows, first,
                                      tuned_stream());
  Real* table = d_table.data();
  const T* gradient = dx.data();
  // Tiles of columns are independent, tokens within a tile go in order: parallel and exact.
  for_each_column_tile(
      "embedding.backward", n, KOKKOS_LAMBDA(const int64_t low, const int64_t high) {
        for (int64_t t = 0; t < tokens; ++t) {
          const int64_t entry = int64_t{index[t]} - first;
          if (entry < 0 || entry >= rows) continue;
          Real* row = table + entry * n;
          const T* g = gradient + t * n;
          for (int64_t j = low; j < high; ++j) row[j] += Real(g[j]);
        }
      });
}

#define ESPALIER_INSTANTIATE(T)                                                                   \
  template void embedding_forward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&,     \
                                     const int32_t*, const int32_t*, int64_t, const DropoutMask&, \
                                     const int64_t*);                                             \
  template void add_positions<T>(const Mat<T>&, const Mat<const T>&, const int32_t*,              \
                                 const DropoutMask&, const int64_t*);                             \
  template void embedding_backward<T>(const Mat<Acc<T>>&, const Mat<const T>&, const int32_t*,    \
                                      int64_t);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
