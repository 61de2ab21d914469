// SPDX-License-Identifier: Apache-2.0
// The parameter gradients of a block: weights are written as the view says, vectors added to. Those
// of norms are sums over tokens that ranks may share: they are formed by slices of the tokens, or
// by heads, and added in a tree.
#include <algorithm>

#include "core/test_hooks.hpp"
#include "engine/stage.hpp"
#include "tensor/profile.hpp"
#include "tensor/sums.hpp"

namespace espalier {

// One product in the fast mode, one for each run of the shards in the reproducible one.
template <class T>
void Stage<T>::linear_gradients(const GradientView<Real>& g, const LinearSlots& slots,
                                const Mat<T>& dy, const Mat<T>& x, const ShardUnits& units,
                                Parallel parallel) {
  const Mat<Real> dw = g.matrix(slots.weight);
  Real* scratch = slots.bias.present() ? work_.get<Real>("bias.partials").data() : nullptr;
  const Mat<const T> dy_all(dy), x_all(x);
  if (is_one_product(units)) {
    ScopedPart part(Part::matmul);
    linear_backward<T>(dw, g.vector(slots.bias), dy_all, x_all, scratch, g.write);
    return;
  }
  {
    ScopedPart part(Part::matmul);
    if (parallel == Parallel::rows)
      row_backward_weight<T>(dw, dy_all, x_all, units, g.write);
    else
      column_backward_weight<T>(dw, dy_all, x_all, units, g.write);
  }
  if (!slots.bias.present()) return;
  ScopedPart part(Part::activation);
  linear_backward_bias<T>(g.vector(slots.bias), dy_all, scratch);
}

template <class T>
void Stage<T>::mlp_weights(const At& a, const GradientView<Real>& g, const Mat<T>& dy,
                           const Mat<T>& d_up, UpBias up_bias) {
  const bool sequential = model_.residual == Residual::sequential;
  const auto x = all_tokens(a.tensor(sequential ? "mlp.normed" : "attention.normed"), "gathered");
  linear_gradients(g, a.slots.down, dy, a.tensor("mlp.activated"), units_.down, Parallel::rows);
  LinearSlots up = a.slots.up;
  if (up_bias == UpBias::done) up.bias = {};
  linear_gradients(g, up, d_up, x, units_.up, Parallel::columns);
}

template <class T>
void Stage<T>::attention_weights(const At& a, const GradientView<Real>& g, const Mat<T>& dy,
                                 const Mat<T>& d_qkv) {
  const auto x = all_tokens(a.tensor("attention.normed"), "gathered");
  linear_gradients(g, a.slots.output, dy, a.tensor("attention.heads"), units_.output,
                   Parallel::rows);
  linear_gradients(g, a.slots.qkv, d_qkv, x, units_.qkv, Parallel::columns);
}

// values: attention norm, MLP norm, query norm, key norm, each weight and bias. NormsOf::heads: the
// first two are added already.
template <class T>
void Stage<T>::norm_weights(const At& a, const GradientView<Real>& g, const Real* values,
                            NormsOf which) {
  if (which == NormsOf::heads && !model_.qk_norm) return;
  ScopedPart part(Part::norm);
  for (const NormSlots* n :
       {&a.slots.attention_norm, &a.slots.mlp_norm, &a.slots.q_norm, &a.slots.k_norm})
    for (const Slot* slot : {&n->weight, &n->bias}) {
      if (!slot->present()) continue;
      const bool is_of_heads = n == &a.slots.q_norm || n == &a.slots.k_norm;
      if (is_of_heads || which == NormsOf::all)
        add_to(g.vector(*slot).data(), values, slot->columns);
      values += slot->columns;
    }
}

// The tokens that a norm's gradient is summed over by themselves: relative to this rank's.
template <class T>
std::vector<Range> Stage<T>::norm_slices() const {
  const Range own = plan_.own_tokens;
  if (!blueprint_.config.numerics.reproducible) return {{0, own.count}};
  const int64_t first = cuts_tokens() ? split_.first_shard() : 0;
  const int64_t count = cuts_tokens() ? split_.local_shards() : split_.shards;
  std::vector<Range> slices;
  for (int64_t s = first; s < first + count; ++s) {
    const Range r = cut_evenly(plan_.tokens, split_.shards, s);
    slices.push_back({r.first - own.first, r.count});
  }
  return slices;
}

// With g the sum over the tokens, which is all there is, is added to the block's gradients at once.
// They have the bits that the detour over `result` gives.
template <class T>
void Stage<T>::stream_norm_backward(const NormSlots& slots, const BlockView<const T>& w,
                                    const Mat<T>& x, const Mat<Real>& statistics, const Mat<T>& dy,
                                    Accumulate accumulate, Real* result,
                                    const GradientView<Real>* g) {
  ScopedPart part(Part::norm);
  const auto d_stream = work_.get<T>("d_stream");
  Real* scratch = work_.get<Real>("norm.partials").data();
  if (g != nullptr)
    return norm_backward<T>(model_.norm, RowSet<T>(d_stream), accumulate, g->vector(slots.weight),
                            g->vector(slots.bias), RowSet<const T>(dy), RowSet<const T>(x),
                            statistics.data(), w.vector(slots.weight), scratch);
  const int64_t n = model_.hidden_size, width = slots.bias.present() ? 2 * n : n;
  Real* partials = work_.get<Real>("norm.slices").data();
  const auto slices = norm_slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    Real* sums = partials + static_cast<int64_t>(i) * width;
    device::fill(sums, 0, width * kReal);
    const auto rows = [&](const Mat<T>& m) {
      return RowSet<T>(Mat<T>(m.data() + slices[i].first * n, slices[i].count, n));
    };
    if (slices[i].count == 0) continue;
    norm_backward<T>(model_.norm, rows(d_stream), accumulate, Vec<Real>(sums, n),
                     Vec<Real>(slots.bias.present() ? sums + n : nullptr, n), rows(dy), rows(x),
                     statistics.data() + 2 * slices[i].first, w.vector(slots.weight), scratch);
  }
  sum_of_leaves(result, partials, static_cast<int64_t>(slices.size()), width);
}

// Queries' and keys' norms: in place in d_qkv; the parameters' gradients of each shard's heads by
// themselves, those of repeated key heads with the first shard that has them.
template <class T>
void Stage<T>::qk_norm_backward(const At& a, const Mat<T>& d_qkv) {
  ScopedPart part(Part::norm);
  const auto raw = a.tensor("attention.qkv_raw");
  const Real* statistics = a.sums("attention.qk_norm.statistics").data();
  const int64_t dim = model_.head_dim, heads = attention_.head.heads;
  const int64_t vectors = a.slots.q_norm.bias.present() ? 2 : 1, width = 2 * vectors * dim;
  const int64_t shards = split_.local_shards(), queries = heads / shards;
  Real* partials = work_.get<Real>("norm.slices").data();
  device::fill(partials, 0, shards * width * kReal);
  const auto one = [&](const NormSlots& slots, int64_t head, int64_t count, Real* sums) {
    const auto rows = head_rows(d_qkv, head * dim, count);
    // In place: a row's gradient is read before it is written, and only by that row.
    norm_backward<T>(model_.norm, rows, Accumulate::no, Vec<Real>(sums, dim),
                     Vec<Real>(vectors == 2 ? sums + dim : nullptr, dim), rows,
                     head_rows(raw, head * dim, count), statistics + 2 * plan_.tokens * head,
                     a.w.vector(slots.weight), work_.get<Real>("norm.partials").data());
  };
  const int64_t first_kv = keys_.local(split_).first;
  for (int64_t s = 0; s < shards; ++s) {
    const int64_t shard = split_.first_shard() + s;
    Real* sums = partials + s * width;
    one(a.slots.q_norm, s * queries, queries, sums);
    const bool leads = shard % keys_.sharers == 0;
    if (!leads && s > 0) continue;
    one(a.slots.k_norm, heads + keys_.first_head(shard) - first_kv, keys_.per_shard,
        sums + vectors * dim);
    if (!leads) device::fill(sums + vectors * dim, 0, (width - vectors * dim) * kReal);
  }
  sum_of_leaves(head_norms_.data(), partials, shards, width);
}

template <class T>
void Stage<T>::sum_head_norms(Real* result) {
  const int64_t width = norm_widths(model_).heads;
  device::copy(result, head_norms_.data(), width * kReal);
  if (!is_broken_for_test("head_norm_sum")) tp_.sum(result, width);
}

template <class T>
void Stage<T>::sum_token_norms(Real* result, int64_t width) {
  if (cuts_tokens() && !is_broken_for_test("token_norm_sum")) tp_.sum(result, width);
}

#define ESPALIER_INSTANTIATE(T)                                                                  \
  template void Stage<T>::mlp_weights(const At&, const GradientView<Real>&, const Mat<T>&,       \
                                      const Mat<T>&, UpBias);                                    \
  template void Stage<T>::attention_weights(const At&, const GradientView<Real>&, const Mat<T>&, \
                                            const Mat<T>&);                                      \
  template void Stage<T>::norm_weights(const At&, const GradientView<Real>&, const Real*,        \
                                       NormsOf);                                                 \
  template void Stage<T>::stream_norm_backward(const NormSlots&, const BlockView<const T>&,      \
                                               const Mat<T>&, const Mat<Real>&, const Mat<T>&,   \
                                               Accumulate, Real*, const GradientView<Real>*);    \
  template void Stage<T>::qk_norm_backward(const At&, const Mat<T>&);                            \
  template void Stage<T>::sum_head_norms(Real*);                                                 \
  template void Stage<T>::sum_token_norms(Real*, int64_t);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
