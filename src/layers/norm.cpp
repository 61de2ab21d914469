// SPDX-License-Identifier: Apache-2.0
#include "layers/norm.hpp"

#include "core/error.hpp"
#include "cuda/norm.hpp"
#include "layers/instantiate.hpp"
#include "layers/residual.hpp"
#include "layers/residual_row.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

template <class T>
cuda::NormRows<T> tuned_rows(const RowSet<T>& r) {
  return {r.data, r.rows, r.columns, r.groups, r.outer, r.inner};
}

// One row: statistics of x, then y. Shared by both forward functions.
template <class T>
KOKKOS_INLINE_FUNCTION void normalise_row(const Row& row, NormKind kind, T* y, Acc<T>* statistics,
                                          const T* x, const T* w, const T* b, int64_t n,
                                          Acc<T> eps) {
  using Real = Acc<T>;
  Real mean = 0;
  if (kind == NormKind::layernorm)
    mean = row.template sum<Real>(n, [=](int64_t j) { return Real(x[j]); }) / Real(n);
  const Real variance = row.template sum<Real>(n, [=](int64_t j) {
    const Real d = Real(x[j]) - mean;
    return d * d;
  }) / Real(n);
  const Real rstd = Real(1) / std::sqrt(variance + eps);
  statistics[0] = mean;
  statistics[1] = rstd;
  if (b != nullptr)
    row.each(n, [=](int64_t j) { y[j] = T((Real(x[j]) - mean) * rstd * Real(w[j]) + Real(b[j])); });
  else
    row.each(n, [=](int64_t j) { y[j] = T((Real(x[j]) - mean) * rstd * Real(w[j])); });
}

}  // namespace

template <class T>
void norm_forward(NormKind kind, const RowSet<T>& y, Acc<T>* statistics, const RowSet<const T>& x,
                  const NormParameters<T>& p, double eps) {
  ESPALIER_REQUIRE(x.rows == y.rows && x.columns == y.columns &&
                       x.columns == static_cast<int64_t>(p.weight.extent(0)),
                   "norm_forward of x [{}, {}], y [{}, {}], weight [{}]", x.rows, x.columns, y.rows,
                   y.columns, p.weight.extent(0));
  const T* w = p.weight.data();
  const T* b = p.bias.data();
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::norm_forward<T>({tuned_rows(y), statistics, tuned_rows(x), w, b,
                                    static_cast<float>(eps), kind == NormKind::layernorm},
                                   tuned_stream());
  const Acc<T> epsilon = static_cast<Acc<T>>(eps);
  for_each_row(
      "norm.forward", x.rows, KOKKOS_LAMBDA(const Row& row) {
        const int64_t i = row.index();
        normalise_row<T>(row, kind, y.row(i), statistics + 2 * i, x.row(i), w, b, x.columns,
                         epsilon);
      });
}

template <class T>
void residual_norm_forward(NormKind kind, const Mat<T>& y, Acc<T>* statistics, const Mat<T>& x,
                           const Mat<const T>& stream, const Mat<const T>& delta,
                           const Vec<const T>& delta_bias, const NormParameters<T>& p, double eps,
                           const DropoutMask& mask, const int64_t* token_index) {
  const int64_t n = x.extent(1);
  ESPALIER_REQUIRE(x.extent(1) == p.weight.extent(0),
                   "residual_norm_forward of x [{}, {}], weight [{}]", x.extent(0), n,
                   p.weight.extent(0));
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>()) {
      // The masked sum is the portable one, its norm that of norm_forward: recomputation and the
      // first block of a stage normalise x alone and must come to the same bits.
      if (mask.active()) {
        residual_add<T>(x, stream, delta, delta_bias, mask, token_index);
        return norm_forward<T>(kind, RowSet<T>(y), statistics, RowSet<const T>(Mat<const T>(x)), p,
                               eps);
      }
      return cuda::residual_norm_forward<T>(
          {y.data(), x.data(), statistics, stream.data(), delta.data(), delta_bias.data(),
           p.weight.data(), p.bias.data(), static_cast<int64_t>(x.extent(0)), n,
           static_cast<float>(eps), kind == NormKind::layernorm},
          tuned_stream());
    }
  const residual_detail::Addition<T> add(x, stream, delta, delta_bias, mask, token_index);
  const T* sum = x.data();
  T* out = y.data();
  const T* w = p.weight.data();
  const T* b = p.bias.data();
  const Acc<T> epsilon = static_cast<Acc<T>>(eps);
  for_each_row(
      "norm.residual_forward", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t i = row.index(), at = i * n;
        add.row(row);
        normalise_row<T>(row, kind, out + at, statistics + 2 * i, sum + at, w, b, n, epsilon);
      });
}

template <class T>
void norm_backward(NormKind kind, const RowSet<T>& dx, Accumulate accumulate, const Vec<Acc<T>>& dw,
                   const Vec<Acc<T>>& db, const RowSet<const T>& dy, const RowSet<const T>& x,
                   const Acc<T>* statistics, const Vec<const T>& weight, Acc<T>* partials) {
  using Real = Acc<T>;
  const int64_t rows = x.rows, n = x.columns, chunks = norm_partial_rows(rows);
  ESPALIER_REQUIRE(dx.rows == rows && dy.rows == rows && dx.columns == n && dy.columns == n &&
                       static_cast<int64_t>(dw.extent(0)) == n,
                   "norm_backward of x [{}, {}], dy [{}, {}], dw [{}]", rows, n, dy.rows,
                   dy.columns, dw.extent(0));
  const T* w = weight.data();
  const bool centred = kind == NormKind::layernorm;
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::norm_backward<T>(
          {tuned_rows(dx), accumulate == Accumulate::yes, dw.data(), db.data(), tuned_rows(dy),
           tuned_rows(x), statistics, w, partials, centred},
          tuned_stream());
  const Real keep = accumulate == Accumulate::yes ? Real(1) : Real(0);
  for_each_row(
      "norm.backward", chunks, KOKKOS_LAMBDA(const Row& row) {
        const int64_t first = row.index() * kNormChunk;
        const int64_t last = first + kNormChunk < rows ? first + kNormChunk : rows;
        Real* pw = partials + row.index() * 2 * n;
        Real* pb = pw + n;
        row.each(2 * n, [=](int64_t j) { pw[j] = 0; });
        for (int64_t i = first; i < last; ++i) {
          const T* xi = x.row(i);
          const T* g = dy.row(i);
          T* d = dx.row(i);
          const Real mean = statistics[2 * i], rstd = statistics[2 * i + 1];
          const Real projected = row.template sum<Real>(n, [=](int64_t j) {
            return Real(g[j]) * Real(w[j]) * ((Real(xi[j]) - mean) * rstd);
          }) / Real(n);
          Real shift = 0;
          if (centred)
            shift = row.template sum<Real>(n, [=](int64_t j) { return Real(g[j]) * Real(w[j]); }) /
                    Real(n);
          row.each(n, [=](int64_t j) {
            const Real xhat = (Real(xi[j]) - mean) * rstd;
            const Real gj = Real(g[j]);
            pw[j] += gj * xhat;
            pb[j] += gj;
            const Real change = rstd * (gj * Real(w[j]) - shift - xhat * projected);
            d[j] = T((keep != Real(0) ? Real(d[j]) : Real(0)) + change);
          });
        }
      });
  Real* weight_gradient = dw.data();
  Real* bias_gradient = db.data();
  for_each_column_tile(
      "norm.parameter_gradient", n, KOKKOS_LAMBDA(const int64_t first, const int64_t last) {
        // The sum by itself, then added: as whoever keeps the sums of several slices adds them.
        const auto add = [=](Real* gradient, const Real* sums) {
          Real total[kColumnTile] = {};
          for (int64_t c = 0; c < chunks; ++c)
            for (int64_t j = first; j < last; ++j) total[j - first] += sums[c * 2 * n + j];
          for (int64_t j = first; j < last; ++j) gradient[j] += total[j - first];
        };
        add(weight_gradient, partials);
        if (bias_gradient != nullptr) add(bias_gradient, partials + n);
      });
}

#define ESPALIER_INSTANTIATE(T)                                                                   \
  template void norm_forward<T>(NormKind, const RowSet<T>&, Acc<T>*, const RowSet<const T>&,      \
                                const NormParameters<T>&, double);                                \
  template void residual_norm_forward<T>(                                                         \
      NormKind, const Mat<T>&, Acc<T>*, const Mat<T>&, const Mat<const T>&, const Mat<const T>&,  \
      const Vec<const T>&, const NormParameters<T>&, double, const DropoutMask&, const int64_t*); \
  template void norm_backward<T>(NormKind, const RowSet<T>&, Accumulate, const Vec<Acc<T>>&,      \
                                 const Vec<Acc<T>>&, const RowSet<const T>&,                      \
                                 const RowSet<const T>&, const Acc<T>*, const Vec<const T>&,      \
                                 Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
