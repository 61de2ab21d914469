// SPDX-License-Identifier: Apache-2.0
// The forward pass of a stage. The residual stream is materialised where a norm reads it: what a
// block's last linear layer wrote waits in "delta" until then.
#include "core/error.hpp"
#include "engine/stage.hpp"
#include "layers/activation.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "tensor/profile.hpp"

namespace espalier {

template <class T>
Vec<const T> Stage<T>::pending_bias(int64_t layer) const {
  return parameters_.vector(slots_.layers[layer].down.bias);
}

template <class T>
RowSet<T> Stage<T>::query_rows(const Mat<T>& qkv) const {
  const HeadShape& h = attention_.head;
  return {qkv.data(), static_cast<int64_t>(qkv.extent(0)) * h.heads, h.head_dim, h.heads, h.row(),
          h.head_dim};
}

template <class T>
RowSet<T> Stage<T>::key_rows(const Mat<T>& qkv) const {
  const HeadShape& h = attention_.head;
  return {qkv.data() + h.heads * h.head_dim,
          static_cast<int64_t>(qkv.extent(0)) * h.kv_heads,
          h.head_dim,
          h.kv_heads,
          h.row(),
          h.head_dim};
}

template <class T>
void Stage<T>::forward_trunk(const Inputs& in) {
  for (int64_t layer = 0; layer < model_.num_layers; ++layer) forward_block(layer, in);
  forward_final_norm();
}

// The block's input and its first norm: from the embedding, or from the block before.
template <class T>
void Stage<T>::enter_block(int64_t layer, const Inputs& in) {
  const TensorSet& block = blocks_[layer];
  const auto x = block.get<T>("input");
  const auto normed = block.get<T>("attention.normed");
  const auto statistics = block.get<Real>("attention.norm.statistics");
  const auto norm = norm_parameters(slots_.layers[layer].attention_norm);
  if (layer == 0) {
    {
      ScopedPart part(Part::embedding);
      Mat<const T> positions(nullptr, 0, 0);
      if (slots_.position.present()) positions = parameters_.matrix(slots_.position);
      embedding_forward<T>(x, parameters_.matrix(slots_.token), positions, in.tokens, in.positions);
    }
    ScopedPart part(Part::norm);
    norm_forward<T>(model_.norm, normed, statistics.data(), RowSet<T>(x), norm, model_.norm_eps);
    return;
  }
  ScopedPart part(Part::norm);
  const char* before = model_.residual == Residual::sequential ? "mlp.input" : "input";
  residual_norm_forward<T>(model_.norm, normed, statistics.data(), x,
                           blocks_[layer - 1].get<T>(before), work_.get<T>("delta"),
                           pending_bias(layer - 1), norm, model_.norm_eps);
}

template <class T>
void Stage<T>::apply_qk_norm_forward(int64_t layer) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto raw = block.get<T>("attention.qkv_raw");
  const auto qkv = block.get<T>("attention.qkv");
  const auto statistics = block.get<Real>("attention.qk_norm.statistics");
  const int64_t query_count = static_cast<int64_t>(raw.extent(0)) * model_.num_heads;
  ScopedPart part(Part::norm);
  Kokkos::deep_copy(qkv, raw);  // values pass through; queries and keys are overwritten
  norm_forward<T>(model_.norm, query_rows(qkv), statistics.data(), query_rows(raw),
                  norm_parameters(slots.q_norm), model_.norm_eps);
  norm_forward<T>(model_.norm, key_rows(qkv), statistics.data() + 2 * query_count, key_rows(raw),
                  norm_parameters(slots.k_norm), model_.norm_eps);
}

template <class T>
void Stage<T>::forward_attention(int64_t layer, const Inputs& in) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto qkv = block.get<T>("attention.qkv");
  const auto projected = model_.qk_norm ? block.get<T>("attention.qkv_raw") : qkv;
  {
    ScopedPart part(Part::matmul);
    linear_forward<T>(projected, block.get<T>("attention.normed"),
                      parameters_.matrix(slots.qkv.weight));
  }
  if (slots.qkv.bias.present()) {
    ScopedPart part(Part::activation);
    add_bias<T>(projected, parameters_.vector(slots.qkv.bias));
  }
  if (model_.qk_norm) apply_qk_norm_forward(layer);
  ScopedPart part(Part::attention);
  if (model_.position == PositionKind::rope)
    rope<T>(model_.rope_style, Rotation::forward, qkv, attention_.head, rope_table_, in.positions);
  attention_forward<T>(block.get<T>("attention.heads"), block.get<Real>("attention.log_sum"), qkv,
                       in.document_start, attention_, work_.get<Real>("attention.scratch").data());
}

template <class T>
void Stage<T>::forward_mlp(int64_t layer, Write write) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const bool sequential = model_.residual == Residual::sequential;
  const auto normed = block.get<T>(sequential ? "mlp.normed" : "attention.normed");
  const auto up = block.get<T>("mlp.up");
  const auto activated = block.get<T>("mlp.activated");
  {
    ScopedPart part(Part::matmul);
    linear_forward<T>(up, normed, parameters_.matrix(slots.up.weight));
  }
  {
    ScopedPart part(Part::activation);
    activation_forward<T>(model_.activation, activated, up, parameters_.vector(slots.up.bias));
  }
  ScopedPart part(Part::matmul);
  linear_forward<T>(work_.get<T>("delta"), activated, parameters_.matrix(slots.down.weight), write);
}

template <class T>
void Stage<T>::forward_block(int64_t layer, const Inputs& in) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto delta = work_.get<T>("delta");
  enter_block(layer, in);
  forward_attention(layer, in);
  {
    ScopedPart part(Part::matmul);
    linear_forward<T>(delta, block.get<T>("attention.heads"),
                      parameters_.matrix(slots.output.weight));
  }
  if (model_.residual == Residual::parallel) {
    if (slots.output.bias.present()) add_bias<T>(delta, parameters_.vector(slots.output.bias));
    forward_mlp(layer, Write::add);
    return;
  }
  {
    ScopedPart part(Part::norm);
    residual_norm_forward<T>(
        model_.norm, block.get<T>("mlp.normed"), block.get<Real>("mlp.norm.statistics").data(),
        block.get<T>("mlp.input"), block.get<T>("input"), delta,
        parameters_.vector(slots.output.bias), norm_parameters(slots.mlp_norm), model_.norm_eps);
  }
  forward_mlp(layer, Write::overwrite);
}

template <class T>
void Stage<T>::forward_final_norm() {
  const int64_t last = model_.num_layers - 1;
  const char* before = model_.residual == Residual::sequential ? "mlp.input" : "input";
  ScopedPart part(Part::norm);
  residual_norm_forward<T>(
      model_.norm, head_.get<T>("final.normed"), head_.get<Real>("final_norm.statistics").data(),
      head_.get<T>("final.input"), blocks_[last].get<T>(before), work_.get<T>("delta"),
      pending_bias(last), norm_parameters(slots_.final_norm), model_.norm_eps);
}

// Logits, losses and, when training, the gradients of the output projection, for
// plan.classifier_rows tokens at a time: all logits never exist at once.
template <class T>
double Stage<T>::head(const Inputs& in, Head mode, double gradient_scale, Real* gradients) {
  const auto normed = head_.get<T>("final.normed");
  const auto gradient = head_.get<T>("final.gradient");
  const auto losses = head_.get<Real>("losses");
  const auto all_logits = work_.get<T>("logits");
  const auto weight = parameters_.matrix(slots_.output);
  const int64_t tokens = normed.extent(0), hidden = normed.extent(1);
  for (int64_t first = 0; first < tokens; first += blueprint_.activations.classifier_rows) {
    const int64_t rows = std::min(blueprint_.activations.classifier_rows, tokens - first);
    const Mat<T> logits(all_logits.data(), rows, all_logits.extent(1));
    const Mat<T> x(normed.data() + first * hidden, rows, hidden);
    {
      ScopedPart part(Part::matmul);
      linear_forward<T>(logits, x, weight);
    }
    {
      ScopedPart part(Part::loss);
      cross_entropy<T>(logits, in.targets + first, losses.data() + first, model_.logit_scale,
                       gradient_scale, mode == Head::train ? Gradient::in_place : Gradient::none);
    }
    if (mode == Head::train) {
      ScopedPart part(Part::matmul);
      linear_backward_input<T>(Mat<T>(gradient.data() + first * hidden, rows, hidden), logits,
                               weight);
      linear_backward_weight<T>(gradient_matrix(gradients, slots_.output), logits, x);
    }
  }
  ScopedPart part(Part::loss);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, losses);
  double sum = 0.0;
  for (int64_t t = 0; t < tokens; ++t) sum += static_cast<double>(host(0, t));
  return sum;
}

#define ESPALIER_INSTANTIATE(T)                                       \
  template void Stage<T>::forward_trunk(const Inputs&);               \
  template double Stage<T>::head(const Inputs&, Head, double, Real*); \
  template RowSet<T> Stage<T>::query_rows(const Mat<T>&) const;       \
  template RowSet<T> Stage<T>::key_rows(const Mat<T>&) const;
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
