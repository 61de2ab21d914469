// SPDX-License-Identifier: Apache-2.0
#include "engine/shards.hpp"

#include <initializer_list>
#include <numeric>

#include "blueprint/model_widths.hpp"
#include "core/error.hpp"
#include "tensor/gemm.hpp"

namespace espalier {
namespace {

// Runs of `count` things cut by shards, from local position `from` on.
void add_runs(ShardUnits& units, const TensorSplit& split, int64_t count, int64_t from) {
  const int64_t before = split.local(count).first;
  for (int64_t s = 0; s < split.local_shards(); ++s) {
    const Range run = cut_evenly(count, split.shards, split.first_shard() + s);
    if (run.count == 0) continue;
    units.compute[static_cast<size_t>(s)].push_back({from + run.first - before, run.count});
    units.input[static_cast<size_t>(s)].push_back({from + run.first - before, run.count});
  }
}

// Heads that several shards repeat are computed by a rank's first of these shards.
void add_key_runs(ShardUnits& units, const TensorSplit& split, const ModelConfig& m, int64_t from) {
  const KeyValueSplit keys(m.num_kv_heads, split.shards);
  const int64_t dim = m.head_dim, before = keys.local(split).first * dim;
  for (int64_t s = 0; s < split.local_shards(); ++s) {
    const int64_t shard = split.first_shard() + s;
    const bool leads = shard % keys.sharers == 0;
    const Range run{from + keys.first_head(shard) * dim - before, keys.per_shard * dim};
    if (leads || s == 0) units.compute[static_cast<size_t>(s)].push_back(run);
    if (leads) units.input[static_cast<size_t>(s)].push_back(run);
  }
}

ShardUnits empty_units(const TensorSplit& split) {
  const auto n = static_cast<size_t>(split.local_shards());
  return {std::vector<ShardRuns>(n), std::vector<ShardRuns>(n)};
}

// One run instead of several neighbours: fewer and larger products, in the fast mode.
void join(ShardRuns& runs) {
  ShardRuns joined;
  for (const Range& r : runs) {
    if (!joined.empty() && joined.back().last() == r.first)
      joined.back().count += r.count;
    else
      joined.push_back(r);
  }
  runs = joined;
}

/// Widths of the pieces that any layout puts together: offsets and local widths are sums of them.
int64_t granule_of(const TensorSplit& split, std::initializer_list<int64_t> widths) {
  int64_t granule = 0;
  for (const int64_t width : widths)
    for (int64_t s = 0; s < split.shards; ++s)
      granule = std::gcd(granule, cut_evenly(width, split.shards, s).count);
  return granule;
}

void set_granule(ShardUnits& units, int64_t granule) {
  for (auto* part : {&units.compute, &units.input})
    for (ShardRuns& runs : *part) runs.granule = granule;
}

}  // namespace

LayerUnits make_units(const Blueprint& b) {
  const ModelConfig& m = b.config.model;
  const TensorSplit& split = b.place.split;
  const int64_t query = split.local(query_width(m)).count;
  const int64_t keys = KeyValueSplit(m.num_kv_heads, split.shards).local(split).count * m.head_dim;
  const int64_t inner = split.local(m.intermediate_size).count;
  LayerUnits u;
  for (ShardUnits* units : {&u.qkv, &u.output, &u.up, &u.down, &u.vocabulary})
    *units = empty_units(split);
  add_runs(u.qkv, split, query_width(m), 0);
  add_key_runs(u.qkv, split, m, query);
  add_key_runs(u.qkv, split, m, query + keys);
  add_runs(u.output, split, query_width(m), 0);
  add_runs(u.up, split, m.intermediate_size, 0);
  if (m.activation == Activation::swiglu) add_runs(u.up, split, m.intermediate_size, inner);
  add_runs(u.down, split, m.intermediate_size, 0);
  add_runs(u.vocabulary, split, m.vocab_size, 0);
  if (b.config.numerics.reproducible) {
    const int64_t head = KeyValueSplit(m.num_kv_heads, split.shards).per_shard * m.head_dim;
    set_granule(u.qkv, std::gcd(granule_of(split, {query_width(m)}), head));
    set_granule(u.output, granule_of(split, {query_width(m)}));
    set_granule(u.up, granule_of(split, {m.intermediate_size}));
    set_granule(u.down, granule_of(split, {m.intermediate_size}));
    set_granule(u.vocabulary, granule_of(split, {m.vocab_size}));
  } else {
    for (ShardUnits* units : {&u.qkv, &u.up}) {
      for (auto& runs : units->compute) join(runs);
      for (auto& runs : units->input) join(runs);
    }
  }
  return u;
}

template <class T>
void column_forward(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w,
                    const ShardUnits& units) {
  const int64_t in = x.extent(1), out = y.extent(1);
  ESPALIER_REQUIRE(
      y.extent(0) == x.extent(0) && w.extent(0) == y.extent(1) && w.extent(1) == x.extent(1),
      "column-parallel product of x [{}, {}], w [{}, {}], y [{}, {}]", x.extent(0), in, w.extent(0),
      w.extent(1), y.extent(0), out);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, T>(Op::none, Op::transpose, x.extent(0), r.count, in, 1, x.data(), in,
                 w.data() + r.first * in, in, 0, y.data() + r.first, out, runs.granule);
}

template <class T, class C>
void column_backward_input(C* out, const Mat<const T>& dy, const Mat<const T>& w,
                           const ShardRuns& runs, Write write) {
  const int64_t in = w.extent(1), columns = dy.extent(1), rows = dy.extent(0);
  if (runs.empty() && write == Write::overwrite)
    device::fill(out, 0, rows * in * static_cast<int64_t>(sizeof(C)));
  Acc<T> keep = write == Write::add ? 1 : 0;
  for (const Range& r : runs) {
    gemm<T, C>(Op::none, Op::none, rows, in, r.count, 1, dy.data() + r.first, columns,
               w.data() + r.first * in, in, keep, out, in, runs.granule);
    keep = 1;
  }
}

template <class T>
void column_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                            const ShardUnits& units, Write write) {
  const int64_t in = x.extent(1), columns = dy.extent(1);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, Acc<T>>(Op::transpose, Op::none, r.count, in, x.extent(0), 1, dy.data() + r.first,
                      columns, x.data(), in, write == Write::add ? 1 : 0, dw.data() + r.first * in,
                      in, runs.granule);
}

template <class T, class C>
void row_forward(C* out, const Mat<const T>& x, const Mat<const T>& w, const ShardRuns& runs,
                 Write write) {
  const int64_t width = w.extent(0), in = w.extent(1);
  ESPALIER_REQUIRE(x.extent(1) == w.extent(1), "row-parallel product of x [{}, {}], w [{}, {}]",
                   x.extent(0), x.extent(1), width, in);
  Acc<T> keep = write == Write::add ? 1 : 0;
  for (const Range& r : runs) {
    gemm<T, C>(Op::none, Op::transpose, x.extent(0), width, r.count, 1, x.data() + r.first, in,
               w.data() + r.first, in, keep, out, width, runs.granule);
    keep = 1;
  }
}

template <class T>
void row_backward_input(const Mat<T>& dx, const Mat<const T>& dy, const Mat<const T>& w,
                        const ShardUnits& units) {
  const int64_t width = w.extent(0), in = w.extent(1);
  ESPALIER_REQUIRE(dx.extent(1) == w.extent(1) && dy.extent(1) == w.extent(0),
                   "row-parallel gradient of dy [{}, {}], w [{}, {}]", dy.extent(0), dy.extent(1),
                   width, in);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, T>(Op::none, Op::none, dy.extent(0), r.count, width, 1, dy.data(), width,
                 w.data() + r.first, in, 0, dx.data() + r.first, in, runs.granule);
}

template <class T>
void row_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                         const ShardUnits& units, Write write) {
  const int64_t width = dw.extent(0), in = dw.extent(1);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, Acc<T>>(Op::transpose, Op::none, width, r.count, dy.extent(0), 1, dy.data(), width,
                      x.data() + r.first, in, write == Write::add ? 1 : 0, dw.data() + r.first, in,
                      runs.granule);
}

template <class T>
ShardSum<T>::ShardSum(TensorParallel<T>& ranks, const TensorSet& work, const Blueprint& b)
    : ranks_(ranks), split_(b.place.split), width_(b.config.model.hidden_size) {
  level_ = b.activations.tokens * width_;
  if (split_.shards == 1) return;
  if (b.config.numerics.reproducible || std::is_same_v<T, Real>)
    exact_ = work.get<Real>("partial").data();
  else
    plain_ = work.get<T>("partial").data();
  if (split_.ranks > 1) received_ = reinterpret_cast<std::byte*>(work.get<T>("received").data());
}

template <class T>
void ShardSum<T>::finish(T* out, int64_t tokens) {
  if (split_.shards == 1) return;
  if (split_.ranks == 1) {
    round_values(exact_, out, tokens * width_);
    return;
  }
  if (exact_ != nullptr) {
    ranks_.template reduce<Real>(exact_, out, tokens, width_, reinterpret_cast<Real*>(received_));
    return;
  }
  if constexpr (!std::is_same_v<T, Real>)
    ranks_.template reduce<T>(plain_, out, tokens, width_, reinterpret_cast<T*>(received_));
}

#define ESPALIER_INSTANTIATE_SUM(T, C)                                                            \
  template void column_backward_input<T, C>(C*, const Mat<const T>&, const Mat<const T>&,         \
                                            const ShardRuns&, Write);                             \
  template void row_forward<T, C>(C*, const Mat<const T>&, const Mat<const T>&, const ShardRuns&, \
                                  Write);
#define ESPALIER_INSTANTIATE(T)                                                                \
  template void column_forward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&,     \
                                  const ShardUnits&);                                          \
  template void column_backward_weight<T>(const Mat<Acc<T>>&, const Mat<const T>&,             \
                                          const Mat<const T>&, const ShardUnits&, Write);      \
  template void row_backward_input<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, \
                                      const ShardUnits&);                                      \
  template void row_backward_weight<T>(const Mat<Acc<T>>&, const Mat<const T>&,                \
                                       const Mat<const T>&, const ShardUnits&, Write);         \
  template class ShardSum<T>;                                                                  \
  ESPALIER_INSTANTIATE_SUM(T, T)
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)
ESPALIER_INSTANTIATE_SUM(bf16, float)
ESPALIER_INSTANTIATE_SUM(fp16, float)

}  // namespace espalier
