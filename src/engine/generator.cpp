// SPDX-License-Identifier: Apache-2.0
#include "engine/generator.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "blueprint/model_widths.hpp"
#include "core/error.hpp"
#include "layers/activation.hpp"
#include "layers/embedding.hpp"
#include "layers/rope.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

// cache[start + t] = columns [from, from + width) of row t of qkv.
template <class T>
void store_rows(const Buffer<T>& cache, int64_t start, const Mat<T>& qkv, int64_t from,
                int64_t width) {
  T* target = cache.data() + start * width;
  const T* source = qkv.data() + from;
  const int64_t stride = qkv.extent(1);
  for_each_row(
      "generator.cache", qkv.extent(0), KOKKOS_LAMBDA(const Row& row) {
        T* to = target + row.index() * width;
        const T* x = source + row.index() * stride;
        row.each(width, [=](int64_t j) { to[j] = x[j]; });
      });
}

template <class T>
void add_rows(const Mat<T>& x, const Mat<T>& delta) {
  T* to = x.data();
  const T* d = delta.data();
  const int64_t n = x.extent(1);
  for_each_row(
      "generator.residual", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        T* target = to + row.index() * n;
        const T* change = d + row.index() * n;
        row.each(n, [=](int64_t j) { target[j] += change[j]; });
      });
}

}  // namespace

template <class T>
Generator<T>::Generator(const Blueprint& blueprint, const ParameterStore<T>& parameters)
    : blueprint_(blueprint),
      parameters_(parameters),
      slots_(make_slots(blueprint.parameters, blueprint.config.model)) {
  const ModelConfig& m = blueprint_.config.model;
  head_ = {m.num_heads, m.num_kv_heads, m.head_dim};
  capacity_ = blueprint_.config.batch.seq_length;
  const auto make = [](const char* label, int64_t size) {
    return Buffer<T>(std::string(label), size);
  };
  stream_ = make("stream", kChunk * m.hidden_size);
  normed_ = make("normed", kChunk * m.hidden_size);
  delta_ = make("delta", kChunk * m.hidden_size);
  qkv_ = make("qkv", kChunk * head_.row());
  heads_ = make("heads", kChunk * m.num_heads * m.head_dim);
  up_ = make("up", kChunk * up_width(m));
  activated_ = make("activated", kChunk * m.intermediate_size);
  logits_ = make("logits", m.vocab_size);
  statistics_ = make("statistics", 2 * kChunk * (m.num_heads + m.num_kv_heads + 1));
  for (int64_t l = 0; l < m.num_layers; ++l) {
    keys_.push_back(make("keys", capacity_ * m.num_kv_heads * m.head_dim));
    values_.push_back(make("values", capacity_ * m.num_kv_heads * m.head_dim));
  }
  if (m.position == PositionKind::rope) rope_table_ = make_rope_table<T>(m, capacity_);
  tokens_ = Buffer<int32_t>("tokens", kChunk);
  positions_ = Buffer<int32_t>("positions", kChunk);
}

template <class T>
void Generator<T>::norm(const Mat<T>& y, const Mat<T>& x, const NormSlots& slots) {
  const ModelConfig& m = blueprint_.config.model;
  norm_forward<T>(m.norm, RowSet<T>(y), statistics_.data(), RowSet<T>(x),
                  {parameters_.vector(slots.weight), parameters_.vector(slots.bias)}, m.norm_eps);
}

template <class T>
void Generator<T>::attention(int64_t layer, int64_t count) {
  const ModelConfig& m = blueprint_.config.model;
  const LayerSlots& slots = slots_.layers[layer];
  const int64_t query = m.num_heads * m.head_dim, key = m.num_kv_heads * m.head_dim;
  const auto qkv = rows(qkv_, count, head_.row());
  linear_forward<T>(qkv, rows(normed_, count, m.hidden_size), parameters_.matrix(slots.qkv.weight));
  if (slots.qkv.bias.present()) add_bias<T>(qkv, parameters_.vector(slots.qkv.bias));
  if (m.qk_norm) {
    const auto in_place = [&](const NormSlots& s, int64_t from, int64_t heads) {
      const RowSet<T> x(qkv.data() + from, count * heads, m.head_dim, heads, head_.row(),
                        m.head_dim);
      norm_forward<T>(m.norm, x, statistics_.data(), x,
                      {parameters_.vector(s.weight), parameters_.vector(s.bias)}, m.norm_eps);
    };
    in_place(slots.q_norm, 0, m.num_heads);
    in_place(slots.k_norm, query, m.num_kv_heads);
  }
  if (m.position == PositionKind::rope) {
    const auto parts = query_key_value(qkv, head_);
    rope<T>(m.rope_style, Rotation::forward, parts.q, m.num_heads, m.head_dim, count, rope_table_,
            positions_.data());
    rope<T>(m.rope_style, Rotation::forward, parts.k, m.num_kv_heads, m.head_dim, count,
            rope_table_, positions_.data());
  }
  store_rows(keys_[layer], position_, qkv, query, key);
  store_rows(values_[layer], position_, qkv, query + key, key);
  const auto heads = rows(heads_, count, query);
  attention_cached<T>(heads, qkv, Mat<const T>(keys_[layer].data(), capacity_, key),
                      Mat<const T>(values_[layer].data(), capacity_, key), position_, head_,
                      1.0 / std::sqrt(static_cast<double>(m.head_dim)));
  const auto delta = rows(delta_, count, m.hidden_size);
  linear_forward<T>(delta, heads, parameters_.matrix(slots.output.weight));
  if (slots.output.bias.present()) add_bias<T>(delta, parameters_.vector(slots.output.bias));
}

template <class T>
void Generator<T>::mlp(int64_t layer, int64_t count, const Mat<const T>& normed, Write write) {
  const ModelConfig& m = blueprint_.config.model;
  const LayerSlots& slots = slots_.layers[layer];
  const auto up = rows(up_, count, slots.up.weight.rows);
  const auto activated = rows(activated_, count, m.intermediate_size);
  const auto delta = rows(delta_, count, m.hidden_size);
  linear_forward<T>(up, normed, parameters_.matrix(slots.up.weight));
  activation_forward<T>(m.activation, activated, up, parameters_.vector(slots.up.bias));
  linear_forward<T>(delta, activated, parameters_.matrix(slots.down.weight), write);
  if (slots.down.bias.present()) add_bias<T>(delta, parameters_.vector(slots.down.bias));
}

template <class T>
void Generator<T>::feed_chunk(const int32_t* tokens, int64_t count) {
  const ModelConfig& m = blueprint_.config.model;
  std::vector<int32_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), static_cast<int32_t>(position_));
  constexpr auto kIndex = static_cast<int64_t>(sizeof(int32_t));
  device::copy_and_wait(tokens_.data(), tokens, count * kIndex);
  device::copy_and_wait(positions_.data(), places.data(), count * kIndex);
  const auto stream = rows(stream_, count, m.hidden_size);
  const auto normed = rows(normed_, count, m.hidden_size);
  const auto delta = rows(delta_, count, m.hidden_size);
  Mat<const T> positions(nullptr, 0, 0);
  if (slots_.position.present()) positions = parameters_.matrix(slots_.position);
  embedding_forward<T>(stream, parameters_.matrix(slots_.token), positions, tokens_.data(),
                       positions_.data());
  for (int64_t layer = 0; layer < m.num_layers; ++layer) {
    norm(normed, stream, slots_.layers[layer].attention_norm);
    attention(layer, count);
    if (m.residual == Residual::parallel) {
      mlp(layer, count, normed, Write::add);
    } else {
      add_rows(stream, delta);
      norm(normed, stream, slots_.layers[layer].mlp_norm);
      mlp(layer, count, normed, Write::overwrite);
    }
    add_rows(stream, delta);
  }
  norm(normed, stream, slots_.final_norm);
  position_ += count;
}

template <class T>
std::vector<float> Generator<T>::feed(const std::vector<int32_t>& tokens) {
  const ModelConfig& m = blueprint_.config.model;
  const auto total = static_cast<int64_t>(tokens.size());
  ESPALIER_REQUIRE(total > 0 && position_ + total <= capacity_,
                   "{} tokens after {} in a sequence of at most {}", total, position_, capacity_);
  int64_t count = 0;
  for (int64_t first = 0; first < total; first += count) {
    count = std::min(kChunk, total - first);
    feed_chunk(tokens.data() + first, count);
  }
  const Mat<const T> last(normed_.data() + (count - 1) * m.hidden_size, 1, m.hidden_size);
  linear_forward<T>(rows(logits_, 1, m.vocab_size), last, parameters_.matrix(slots_.output));
  const std::vector<T> host = host_copy(logits_.data(), m.vocab_size);
  std::vector<float> logits(m.vocab_size);
  for (int64_t v = 0; v < m.vocab_size; ++v)
    logits[v] = static_cast<float>(host[static_cast<size_t>(v)] * m.logit_scale);
  return logits;
}

template class Generator<float>;
template class Generator<double>;

}  // namespace espalier
