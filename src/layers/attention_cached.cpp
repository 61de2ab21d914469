// SPDX-License-Identifier: Apache-2.0
// Attention of a few new tokens against cached keys and values: one row a (token, head).
#include <cmath>

#include "core/error.hpp"
#include "layers/attention.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"

namespace espalier {

template <class T>
void attention_cached(const Mat<T>& heads, const Mat<const T>& qkv, const Mat<const T>& key_cache,
                      const Mat<const T>& value_cache, int64_t start, const HeadShape& h,
                      double scale) {
  using Real = Acc<T>;
  const int64_t count = heads.extent(0), dim = h.head_dim, cached = h.kv_heads * dim;
  ESPALIER_REQUIRE(static_cast<int64_t>(key_cache.extent(0)) >= start + count,
                   "a key cache of {} positions and {} wanted", key_cache.extent(0), start + count);
  const int64_t group = h.heads / h.kv_heads, width = h.row();
  const Real factor = static_cast<Real>(scale);
  const T* keys = key_cache.data();
  const T* values = value_cache.data();
  const T* queries = qkv.data();
  T* out = heads.data();
  for_each_row(
      "attention.cached", count * h.heads, KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index() / h.heads, head = row.index() % h.heads;
        const T* q = queries + t * width + head * dim;
        const int64_t at = head / group * dim;
        T* o = out + t * h.heads * dim + head * dim;
        Real greatest = lowest_number<Real>(), denominator = 0;
        // The output is summed in its own type's row; generation runs in fp32 or fp64.
        row.each(dim, [=](int64_t d) { o[d] = T(Real(0)); });
        for (int64_t s = 0; s <= start + t; ++s) {
          const T* k = keys + s * cached + at;
          const T* v = values + s * cached + at;
          const Real score = factor * row.template sum<Real>(
                                          dim, [=](int64_t d) { return Real(q[d]) * Real(k[d]); });
          const Real next = score > greatest ? score : greatest;
          const Real shrink = exp_value(greatest - next), weight = exp_value(score - next);
          denominator = denominator * shrink + weight;
          greatest = next;
          row.each(dim, [=](int64_t d) { o[d] = T(Real(o[d]) * shrink + weight * Real(v[d])); });
        }
        const Real inverse = Real(1) / denominator;
        row.each(dim, [=](int64_t d) { o[d] = T(Real(o[d]) * inverse); });
      });
}

// Generation widens the weights, so the 16-bit types are not needed here.
template void attention_cached<float>(const Mat<float>&, const Mat<const float>&,
                                      const Mat<const float>&, const Mat<const float>&, int64_t,
                                      const HeadShape&, double);
template void attention_cached<double>(const Mat<double>&, const Mat<const double>&,
                                       const Mat<const double>&, const Mat<const double>&, int64_t,
                                       const HeadShape&, double);

}  // namespace espalier
