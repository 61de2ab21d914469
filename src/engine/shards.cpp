// SPDX-License-Identifier: Apache-2.0
#include "engine/shards.hpp"

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
  return {std::vector<std::vector<Range>>(n), std::vector<std::vector<Range>>(n)};
}

// One run instead of several neighbours: fewer and larger products, in the fast mode.
void join(std::vector<Range>& runs) {
  std::vector<Range> joined;
  for (const Range& r : runs) {
    if (!joined.empty() && joined.back().last() == r.first)
      joined.back().count += r.count;
    else
      joined.push_back(r);
  }
  runs = joined;
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
  if (!b.config.numerics.reproducible)
    for (ShardUnits* units : {&u.qkv, &u.up}) {
      for (auto& runs : units->compute) join(runs);
      for (auto& runs : units->input) join(runs);
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
                 w.data() + r.first * in, in, 0, y.data() + r.first, out);
}

template <class T, class C>
void column_backward_input(C* out, const Mat<const T>& dy, const Mat<const T>& w,
                           const std::vector<Range>& runs, Write write) {
  const int64_t in = w.extent(1), columns = dy.extent(1), rows = dy.extent(0);
  if (runs.empty() && write == Write::overwrite) std::fill(out, out + rows * in, C(Acc<T>(0)));
  Acc<T> keep = write == Write::add ? 1 : 0;
  for (const Range& r : runs) {
    gemm<T, C>(Op::none, Op::none, rows, in, r.count, 1, dy.data() + r.first, columns,
               w.data() + r.first * in, in, keep, out, in);
    keep = 1;
  }
}

template <class T>
void column_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                            const ShardUnits& units) {
  const int64_t in = x.extent(1), columns = dy.extent(1);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, Acc<T>>(Op::transpose, Op::none, r.count, in, x.extent(0), 1, dy.data() + r.first,
                      columns, x.data(), in, 1, dw.data() + r.first * in, in);
}

template <class T, class C>
void row_forward(C* out, const Mat<const T>& x, const Mat<const T>& w,
                 const std::vector<Range>& runs, Write write) {
  const int64_t width = w.extent(0), in = w.extent(1);
  ESPALIER_REQUIRE(x.extent(1) == w.extent(1), "row-parallel product of x [{}, {}], w [{}, {}]",
                   x.extent(0), x.extent(1), width, in);
  Acc<T> keep = write == Write::add ? 1 : 0;
  for (const Range& r : runs) {
    gemm<T, C>(Op::none, Op::transpose, x.extent(0), width, r.count, 1, x.data() + r.first, in,
               w.data() + r.first, in, keep, out, width);
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
                 w.data() + r.first, in, 0, dx.data() + r.first, in);
}

template <class T>
void row_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                         const ShardUnits& units) {
  const int64_t width = dw.extent(0), in = dw.extent(1);
  for (const auto& runs : units.compute)
    for (const Range& r : runs)
      gemm<T, Acc<T>>(Op::transpose, Op::none, width, r.count, dy.extent(0), 1, dy.data(), width,
                      x.data() + r.first, in, 1, dw.data() + r.first, in);
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
void ShardSum<T>::add_to(Real* left, const Real* right, int64_t size) {
  Kokkos::parallel_for(
      "shards.add", Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, size),
      KOKKOS_LAMBDA(const int64_t i) { left[i] += right[i]; });
}

template <class T>
void ShardSum<T>::finish(T* out, int64_t tokens) {
  if (split_.shards == 1) return;
  if (split_.ranks == 1) {
    const Real* from = exact_;
    Kokkos::parallel_for(
        "shards.round", Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, tokens * width_),
        KOKKOS_LAMBDA(const int64_t i) { out[i] = T(from[i]); });
    return;
  }
  if (exact_ != nullptr) {
    ranks_.template reduce<Real>(exact_, out, tokens, width_, reinterpret_cast<Real*>(received_));
    return;
  }
  if constexpr (!std::is_same_v<T, Real>)
    ranks_.template reduce<T>(plain_, out, tokens, width_, reinterpret_cast<T*>(received_));
}

#define ESPALIER_INSTANTIATE_SUM(T, C)                                                    \
  template void column_backward_input<T, C>(C*, const Mat<const T>&, const Mat<const T>&, \
                                            const std::vector<Range>&, Write);            \
  template void row_forward<T, C>(C*, const Mat<const T>&, const Mat<const T>&,           \
                                  const std::vector<Range>&, Write);
#define ESPALIER_INSTANTIATE(T)                                                                \
  template void column_forward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&,     \
                                  const ShardUnits&);                                          \
  template void column_backward_weight<T>(const Mat<Acc<T>>&, const Mat<const T>&,             \
                                          const Mat<const T>&, const ShardUnits&);             \
  template void row_backward_input<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, \
                                      const ShardUnits&);                                      \
  template void row_backward_weight<T>(const Mat<Acc<T>>&, const Mat<const T>&,                \
                                       const Mat<const T>&, const ShardUnits&);                \
  template class ShardSum<T>;                                                                  \
  ESPALIER_INSTANTIATE_SUM(T, T)
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)
ESPALIER_INSTANTIATE_SUM(bf16, float)
ESPALIER_INSTANTIATE_SUM(fp16, float)

}  // namespace espalier
