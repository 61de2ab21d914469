// SPDX-License-Identifier: Apache-2.0
// The backward pass of a stage. "d_stream" is the gradient of the residual stream: every branch
// reads it and adds to it; parameter gradients are added to, other gradients overwritten.
#include "engine/stage.hpp"
#include "layers/activation.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "tensor/profile.hpp"

namespace espalier {

template <class T>
void Stage<T>::linear_gradients(const LinearSlots& slots, const Mat<T>& dy, const Mat<T>& x,
                                Real* gradients) {
  {
    ScopedPart part(Part::matmul);
    linear_backward_weight<T>(gradient_matrix(gradients, slots.weight), dy, x);
  }
  if (!slots.bias.present()) return;
  ScopedPart part(Part::activation);
  linear_backward_bias<T>(gradient_vector(gradients, slots.bias), dy);
}

template <class T>
void Stage<T>::norm_backward_into_stream(const NormSlots& slots, const Mat<T>& d_normed,
                                         const Mat<T>& x, const Mat<Real>& statistics,
                                         Real* gradients) {
  ScopedPart part(Part::norm);
  norm_backward<T>(model_.norm, work_.get<T>("d_stream"), Accumulate::yes,
                   gradient_vector(gradients, slots.weight), gradient_vector(gradients, slots.bias),
                   RowSet<T>(d_normed), RowSet<T>(x), statistics.data(),
                   parameters_.vector(slots.weight), work_.get<Real>("norm.partials").data());
}

template <class T>
void Stage<T>::backward_final_norm(Real* gradients) {
  ScopedPart part(Part::norm);
  norm_backward<T>(
      model_.norm, work_.get<T>("d_stream"), Accumulate::no,
      gradient_vector(gradients, slots_.final_norm.weight),
      gradient_vector(gradients, slots_.final_norm.bias), RowSet<T>(head_.get<T>("final.gradient")),
      RowSet<T>(head_.get<T>("final.input")), head_.get<Real>("final_norm.statistics").data(),
      parameters_.vector(slots_.final_norm.weight), work_.get<Real>("norm.partials").data());
}

// d_normed = gradient of what the MLP read; overwritten.
template <class T>
void Stage<T>::backward_mlp(int64_t layer, Mat<T> d_normed, Real* gradients) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const bool sequential = model_.residual == Residual::sequential;
  const auto d_stream = work_.get<T>("d_stream");
  const auto d_activated = work_.get<T>("d_activated");
  const auto d_up = work_.get<T>("d_up");
  {
    ScopedPart part(Part::matmul);
    linear_backward_input<T>(d_activated, d_stream, parameters_.matrix(slots.down.weight));
  }
  linear_gradients(slots.down, d_stream, block.get<T>("mlp.activated"), gradients);
  {
    ScopedPart part(Part::activation);
    activation_backward<T>(model_.activation, d_up, d_activated, block.get<T>("mlp.up"));
  }
  linear_gradients(slots.up, d_up, block.get<T>(sequential ? "mlp.normed" : "attention.normed"),
                   gradients);
  ScopedPart part(Part::matmul);
  linear_backward_input<T>(d_normed, d_up, parameters_.matrix(slots.up.weight));
}

template <class T>
void Stage<T>::apply_qk_norm_backward(int64_t layer, Real* gradients) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto raw = block.get<T>("attention.qkv_raw");
  const auto d_qkv = work_.get<T>("d_qkv");
  const auto statistics = block.get<Real>("attention.qk_norm.statistics");
  const auto partials = work_.get<Real>("norm.partials");
  const int64_t query_count = static_cast<int64_t>(raw.extent(0)) * model_.num_heads;
  const auto one = [&](const NormSlots& s, const RowSet<T>& d, const RowSet<T>& x,
                       const Real* stats) {
    // In place: a row's gradient is read before it is written, and only by that row.
    norm_backward<T>(model_.norm, d, Accumulate::no, gradient_vector(gradients, s.weight),
                     gradient_vector(gradients, s.bias), d, x, stats, parameters_.vector(s.weight),
                     partials.data());
  };
  ScopedPart part(Part::norm);
  one(slots.q_norm, query_rows(d_qkv), query_rows(raw), statistics.data());
  one(slots.k_norm, key_rows(d_qkv), key_rows(raw), statistics.data() + 2 * query_count);
}

// d_normed (overwritten or added to) = gradient of what the attention read.
template <class T>
void Stage<T>::backward_attention(int64_t layer, const Inputs& in, Mat<T> d_normed, Write write,
                                  Real* gradients) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto d_stream = work_.get<T>("d_stream");
  const auto d_heads = work_.get<T>("d_heads");
  const auto d_qkv = work_.get<T>("d_qkv");
  const auto heads = block.get<T>("attention.heads");
  {
    ScopedPart part(Part::matmul);
    linear_backward_input<T>(d_heads, d_stream, parameters_.matrix(slots.output.weight));
  }
  linear_gradients(slots.output, d_stream, heads, gradients);
  {
    ScopedPart part(Part::attention);
    attention_backward<T>(d_qkv, d_heads, heads, block.get<Real>("attention.log_sum"),
                          block.get<T>("attention.qkv"), in.document_start, attention_,
                          work_.get<Real>("attention.scratch").data());
    if (model_.position == PositionKind::rope)
      rope<T>(model_.rope_style, Rotation::inverse, d_qkv, attention_.head, rope_table_,
              in.positions);
  }
  if (model_.qk_norm) apply_qk_norm_backward(layer, gradients);
  linear_gradients(slots.qkv, d_qkv, block.get<T>("attention.normed"), gradients);
  ScopedPart part(Part::matmul);
  linear_backward_input<T>(d_normed, d_qkv, parameters_.matrix(slots.qkv.weight), write);
}

template <class T>
void Stage<T>::backward_block(int64_t layer, const Inputs& in, Real* gradients) {
  const TensorSet& block = blocks_[layer];
  const LayerSlots& slots = slots_.layers[layer];
  const auto d_normed = work_.get<T>("d_normed");
  const auto progress = [&] {
    if (hooks_.progress) hooks_.progress();
  };
  backward_mlp(layer, d_normed, gradients);
  progress();
  Write write = Write::add;
  if (model_.residual == Residual::sequential) {
    norm_backward_into_stream(slots.mlp_norm, d_normed, block.get<T>("mlp.input"),
                              block.get<Real>("mlp.norm.statistics"), gradients);
    write = Write::overwrite;
  }
  backward_attention(layer, in, d_normed, write, gradients);
  norm_backward_into_stream(slots.attention_norm, d_normed, block.get<T>("input"),
                            block.get<Real>("attention.norm.statistics"), gradients);
}

template <class T>
void Stage<T>::backward_embedding(const Inputs& in, Real* gradients) {
  ScopedPart part(Part::embedding);
  const auto d_stream = work_.get<T>("d_stream");
  embedding_backward<T>(gradient_matrix(gradients, slots_.token), d_stream, in.tokens);
  if (slots_.position.present())
    embedding_backward<T>(gradient_matrix(gradients, slots_.position), d_stream, in.positions);
}

#define ESPALIER_INSTANTIATE(T)                                          \
  template void Stage<T>::backward_final_norm(Real*);                    \
  template void Stage<T>::backward_block(int64_t, const Inputs&, Real*); \
  template void Stage<T>::backward_embedding(const Inputs&, Real*);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
