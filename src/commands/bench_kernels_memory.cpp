// SPDX-License-Identifier: Apache-2.0
// The memory-bound kernels of the layers, by espalier bench kernels. Bytes are those that a kernel
// has to move: every operand read once and every result written once.
#include <fmt/format.h>

#include <set>

#include "blueprint/activation_plan.hpp"
#include "commands/bench_kernels.hpp"
#include "core/random.hpp"
#include "layers/activation.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "layers/norm.hpp"
#include "layers/rope.hpp"

namespace espalier {
namespace {

// A number of matrices [rows, columns] that take turns.
template <class T>
class Turns {
 public:
  Turns(int64_t sets, int64_t rows, int64_t columns, double deviation = 1.0)
      : sets_(sets),
        rows_(rows),
        columns_(columns),
        data_(normal_numbers<T>("bench.turns", sets * rows * columns, deviation)) {}
  Mat<T> operator()(int64_t i) const {
    return as_matrix(data_.data() + i % sets_ * rows_ * columns_, rows_, columns_);
  }

 private:
  int64_t sets_, rows_, columns_;
  Buffer<T> data_;
};

template <class T>
Vec<const T> constant(const Buffer<T>& b) {
  return as_vector(b);
}

constexpr const char* kGroup = "memory";

template <class T>
void norms(KernelTable& table, NormKind kind, const char* word, int64_t columns) {
  const KernelSizes& sizes = table.sizes();
  const int64_t rows = sizes.tokens, one = rows * columns * static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, 2 * one);
  const bool centred = kind == NormKind::layernorm;
  const Turns<T> x(sets, rows, columns), y(sets, rows, columns), delta(sets, rows, columns),
      stream(sets, rows, columns);
  const Buffer<T> weight = normal_numbers<T>("bench.weight", columns),
                  bias = normal_numbers<T>("bench.bias", columns);
  NormParameters<T> p;
  p.weight = constant(weight);
  if (centred) p.bias = constant(bias);
  const Vec<const T> delta_bias = centred ? constant(bias) : Vec<const T>(nullptr, 0);
  const Buffer<Acc<T>> statistics("bench.statistics", 2 * rows), dw("bench.dw", columns),
      db("bench.db", columns), partials("bench.partials", norm_partial_rows(rows) * 2 * columns);
  const Vec<Acc<T>> d_bias = centred ? as_vector(db) : Vec<Acc<T>>(nullptr, 0);
  const auto bytes = static_cast<double>(one);
  const auto name = [&](const char* what) {
    return fmt::format("{} {}, {} x {}", word, what, rows, columns);
  };
  table.measure(kGroup, name("forward"), RateKind::bytes, 2 * bytes, sets, [&](int64_t i) {
    norm_forward<T>(kind, RowSet<T>(y(i)), statistics.data(), RowSet<T>(x(i)), p, 1e-5);
  });
  table.measure(kGroup, name("with residual"), RateKind::bytes, 4 * bytes, sets, [&](int64_t i) {
    residual_norm_forward<T>(kind, y(i), statistics.data(), x(i), stream(i), delta(i), delta_bias,
                             p, 1e-5);
  });
  // Statistics of one of the sets serve all: the time does not depend on them.
  table.measure(kGroup, name("backward"), RateKind::bytes, 4 * bytes, sets, [&](int64_t i) {
    norm_backward<T>(kind, RowSet<T>(y(i)), Accumulate::yes, as_vector(dw), d_bias,
                     RowSet<T>(delta(i)), RowSet<T>(x(i)), statistics.data(), p.weight,
                     partials.data());
  });
}

template <class T>
void rotations(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const int64_t dim = 64, heads = 2 * sizes.heads, kv = sizes.kv_heads, tokens = sizes.tokens;
  const HeadShape shape{heads, kv, dim};
  const auto width = static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, tokens * shape.row() * width);
  const Turns<T> qkv(sets, tokens, shape.row());
  ModelConfig model;
  model.head_dim = dim;
  const Buffer<Acc<T>> angles = make_rope_table<Acc<T>>(model, sizes.length);
  std::vector<int32_t> at(static_cast<size_t>(tokens));
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = static_cast<int32_t>(static_cast<int64_t>(i) % sizes.length);
  const Buffer<int32_t> positions = device_copy("bench.positions", at);
  table.measure(kGroup, fmt::format("rope, {} + {} heads of {}", heads, kv, dim), RateKind::bytes,
                2.0 * static_cast<double>(tokens * (heads + kv) * dim * width), sets,
                [&](int64_t i) {
                  const auto rows = query_key_value(qkv(i), shape);
                  for (const bool is_query : {true, false})
                    rope<T>(RopeStyle::half, Rotation::forward, is_query ? rows.q : rows.k,
                            is_query ? heads : kv, dim, tokens, angles, positions.data());
                });
}

template <class T>
void activations(KernelTable& table, Activation kind, const char* word, bool has_bias) {
  const KernelSizes& sizes = table.sizes();
  const int64_t rows = sizes.tokens, inner = 4 * sizes.hidden,
                up_columns = kind == Activation::swiglu ? 2 * inner : inner;
  const auto width = static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, rows * (inner + up_columns) * width);
  const Turns<T> y(sets, rows, inner), up(sets, rows, up_columns), d_up(sets, rows, up_columns);
  // Small: launch after launch is added to the same operand.
  const Buffer<T> bias = normal_numbers<T>("bench.bias", up_columns, 1e-4);
  const auto of_y = static_cast<double>(rows * inner * width),
             of_up = static_cast<double>(rows * up_columns * width);
  const Vec<const T> added = has_bias ? constant(bias) : Vec<const T>(nullptr, 0);
  table.measure(
      kGroup,
      fmt::format("{}{} forward, {} x {}", word, has_bias ? " and bias" : "", rows, up_columns),
      RateKind::bytes, (has_bias ? 2 : 1) * of_up + of_y, sets,
      [&](int64_t i) { activation_forward<T>(kind, y(i), up(i), added); });
  table.measure(kGroup, fmt::format("{} backward, {} x {}", word, rows, up_columns),
                RateKind::bytes, 2 * of_up + of_y, sets,
                [&](int64_t i) { activation_backward<T>(kind, d_up(i), y(i), up(i)); });
  if (!has_bias) return;
  const Buffer<Acc<T>> db("bench.db", up_columns),
      scratch("bench.scratch", kBiasPartials * up_columns);
  table.measure(kGroup, fmt::format("{} and bias backward, {} x {}", word, rows, up_columns),
                RateKind::bytes, 2 * of_up + of_y, sets, [&](int64_t i) {
                  const Mat<const T> d(d_up(i));
                  if (!activation_and_bias_backward<T>(kind, d_up(i), as_vector(db), y(i), up(i),
                                                       scratch.data()))
                    linear_backward_bias<T>(as_vector(db), d, scratch.data());
                });
}

template <class T>
void bias_gradients(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const int64_t rows = sizes.tokens, columns = 4 * sizes.hidden;
  const int64_t bytes = rows * columns * static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, bytes);
  const Turns<T> dy(sets, rows, columns);
  const Buffer<Acc<T>> db("bench.db", columns), scratch("bench.scratch", kBiasPartials * columns);
  table.measure(kGroup, fmt::format("bias gradient, {} x {}", rows, columns), RateKind::bytes,
                static_cast<double>(bytes), sets,
                [&](int64_t i) { linear_backward_bias<T>(as_vector(db), dy(i), scratch.data()); });
}

template <class T>
void classifier(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const int64_t rows = sizes.logit_rows, columns = sizes.vocabulary;
  const int64_t bytes = rows * columns * static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, bytes);
  const Turns<T> logits(sets, rows, columns);
  const RandomIntegers targets = random_integers(rows, columns, hash_name("bench.targets"));
  const Buffer<Acc<T>> losses("bench.losses", rows);
  table.measure(kGroup, fmt::format("cross entropy and gradient, {} x {}", rows, columns),
                RateKind::bytes, 2.0 * static_cast<double>(bytes), sets, [&](int64_t i) {
                  cross_entropy<T>(logits(i), targets.device.data(), losses.data(), 1.0, 1.0,
                                   Gradient::in_place);
                });
}

template <class T>
void embeddings(KernelTable& table) {
  const KernelSizes& sizes = table.sizes();
  const int64_t tokens = sizes.tokens, hidden = sizes.hidden, entries = sizes.vocabulary;
  const auto width = static_cast<int64_t>(sizeof(T));
  const int64_t sets = operand_sets(sizes, tokens * hidden * width);
  const Turns<T> x(sets, tokens, hidden), rows(1, entries, hidden),
      positions(1, sizes.length, hidden);
  const RandomIntegers ids = random_integers(tokens, entries, hash_name("bench.tokens")),
                       places = random_integers(tokens, sizes.length, hash_name("bench.places"));
  const Buffer<Acc<T>> d_table("bench.d_table", entries * hidden);
  const Mat<Acc<T>> gradient = as_matrix(d_table.data(), entries, hidden);
  const auto distinct =
      static_cast<int64_t>(std::set<int32_t>(ids.host.begin(), ids.host.end()).size());
  // Each row that is used counts once.
  table.measure(kGroup, fmt::format("embedding forward, {} x {}", tokens, hidden), RateKind::bytes,
                static_cast<double>((tokens + distinct + sizes.length) * hidden * width), sets,
                [&](int64_t i) {
                  embedding_forward<T>(x(i), rows(0), positions(0), ids.device.data(),
                                       places.device.data());
                });
  const auto sums = static_cast<double>(2 * distinct * hidden) * sizeof(Acc<T>);
  table.measure(kGroup, fmt::format("embedding backward, {} x {}", tokens, hidden), RateKind::bytes,
                static_cast<double>(tokens * hidden * width) + sums, sets,
                [&](int64_t i) { embedding_backward<T>(gradient, x(i), ids.device.data()); });
}

}  // namespace

template <class T>
void bench_memory_bound(KernelTable& table) {
  table.heading("memory-bound kernels of the layers");
  norms<T>(table, NormKind::layernorm, "layernorm", table.sizes().of_model(1600));
  norms<T>(table, NormKind::rmsnorm, "rmsnorm", table.sizes().hidden);
  rotations<T>(table);
  activations<T>(table, Activation::gelu_tanh, "gelu", true);
  activations<T>(table, Activation::swiglu, "swiglu", false);
  bias_gradients<T>(table);
  classifier<T>(table);
  embeddings<T>(table);
}
template void bench_memory_bound<bf16>(KernelTable&);
template void bench_memory_bound<fp16>(KernelTable&);

}  // namespace espalier
