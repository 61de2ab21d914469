// SPDX-License-Identifier: Apache-2.0
#include "layers/sharded_cross_entropy.hpp"

#include <cmath>

#include "core/error.hpp"
#include "cuda/classifier.hpp"
#include "layers/exponentials.hpp"
#include "layers/instantiate.hpp"
#include "tensor/streamed_tree.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

// Greatest term of all shards and the sum of the exponentials against it.
template <class Real>
KOKKOS_INLINE_FUNCTION void combine_row(const Real* statistics, int64_t shards, int64_t step,
                                        Real* log_terms, Real* target) {
  Real greatest = lowest_number<Real>();
  Real chosen = 0;
  for (int64_t s = 0; s < shards; ++s) {
    const Real top = statistics[s * step];
    if (top > greatest) greatest = top;
    chosen += statistics[s * step + 2];
  }
  StreamedTree<Real> tree;
  for (int64_t s = 0; s < shards; ++s)
    tree.add(statistics[s * step + 1] * exp_value(statistics[s * step] - greatest));
  log_terms[0] = greatest;
  log_terms[1] = tree.sum();
  *target = chosen;
}

}  // namespace

template <class T>
void shard_statistics(T* logits, int64_t stride, int64_t rows, int64_t columns,
                      const int32_t* targets, int64_t first_column, double logit_scale,
                      Gradient gradient, Acc<T>* statistics) {
  using Real = Acc<T>;
  ESPALIER_REQUIRE(columns >= 0 && stride >= columns && logit_scale > 0,
                   "statistics of {} logits in rows of {}, scaled by {}", columns, stride,
                   logit_scale);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::shard_statistics<T>(logits, stride, rows, columns, targets, first_column,
                                       static_cast<float>(logit_scale), statistics, tuned_stream());
  const Real scale = static_cast<Real>(logit_scale);
  const bool keeps = gradient == Gradient::in_place;
  for_each_row(
      "sharded_cross_entropy.statistics", rows, KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index(), target = int64_t{targets[t]} - first_column;
        T* z = logits + t * stride;
        Real* mine = statistics + t * kShardStatistics;
        if (targets[t] < 0 || columns == 0) {
          mine[0] = lowest_number<Real>();
          mine[1] = mine[2] = 0;
          return;
        }
        const bool here = target >= 0 && target < columns;
        const Real chosen = here ? Real(z[target]) * scale : Real(0);
        const Real greatest = greatest_logit<T>(row, z, columns) * scale;
        mine[0] = greatest;
        mine[1] = keeps ? exponentials<T>(row, z, columns, scale, greatest)
                        : sum_of_exponentials<T>(row, z, columns, scale, greatest);
        mine[2] = chosen;
      });
}

template <class T>
void combine_shards(Acc<T>* losses, Acc<T>* log_terms, const Acc<T>* statistics, int64_t shards,
                    int64_t rows, const int32_t* targets) {
  using Real = Acc<T>;
  ESPALIER_REQUIRE(shards > 0, "a loss over {} shards", shards);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::combine_shards(losses, log_terms, statistics, shards, rows, targets,
                                  tuned_stream());
  for_each(
      "sharded_cross_entropy.combine", rows, KOKKOS_LAMBDA(const int64_t t) {
        Real* terms = log_terms + t * kLogTerms;
        if (targets[t] < 0) {
          terms[0] = 0;
          terms[1] = 1;
          losses[t] = 0;
          return;
        }
        Real chosen;
        combine_row<Real>(statistics + t * kShardStatistics, shards, rows * kShardStatistics, terms,
                          &chosen);
        losses[t] = terms[0] + std::log(terms[1]) - chosen;
      });
}

template <class T>
void shard_gradient(T* logits, int64_t stride, int64_t rows, int64_t columns,
                    const int32_t* targets, int64_t first_column, double logit_scale,
                    double gradient_scale, const Acc<T>* statistics, const Acc<T>* log_terms) {
  using Real = Acc<T>;
  ESPALIER_REQUIRE(columns >= 0 && stride >= columns, "gradient of {} logits in rows of {}",
                   columns, stride);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::shard_gradient<T>(
          logits, stride, rows, columns, targets, first_column, static_cast<float>(logit_scale),
          static_cast<float>(gradient_scale), statistics, log_terms, tuned_stream());
  const Real scale = static_cast<Real>(logit_scale);
  const Real slope = static_cast<Real>(gradient_scale * logit_scale);
  for_each_row(
      "sharded_cross_entropy.gradient", rows, KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index(), target = int64_t{targets[t]} - first_column;
        T* z = logits + t * stride;
        if (targets[t] < 0) {
          row.each(columns, [=](int64_t v) { z[v] = T(Real(0)); });
          return;
        }
        const Real* mine = statistics + t * kShardStatistics;
        const Real greatest = log_terms[t * kLogTerms], sum = log_terms[t * kLogTerms + 1];
        scale_exponentials<T>(row, z, columns, scale, mine[0], greatest, slope / sum);
        if (target < 0 || target >= columns) return;
        // For 16-bit types p - 1 must not be formed from the rounded p where it is near 1.
        const Real p = exp_value(mine[2] - greatest) / sum;
        z[target] = T((p - Real(1)) * slope);
      });
}

#define ESPALIER_INSTANTIATE(T)                                                                   \
  template void shard_statistics<T>(T*, int64_t, int64_t, int64_t, const int32_t*, int64_t,       \
                                    double, Gradient, Acc<T>*);                                   \
  template void combine_shards<T>(Acc<T>*, Acc<T>*, const Acc<T>*, int64_t, int64_t,              \
                                  const int32_t*);                                                \
  template void shard_gradient<T>(T*, int64_t, int64_t, int64_t, const int32_t*, int64_t, double, \
                                  double, const Acc<T>*, const Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
