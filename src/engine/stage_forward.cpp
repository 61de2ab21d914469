// SPDX-License-Identifier: Apache-2.0
// The forward pass of a stage. The residual stream is materialised where a norm reads it: what a
// block's last linear layer wrote waits in "delta" until then.
#include "core/error.hpp"
#include "engine/stage.hpp"
#include "layers/activation.hpp"
#include "layers/embedding.hpp"
#include "layers/residual.hpp"
#include "tensor/profile.hpp"

namespace espalier {

template <class T>
QueryKeyValue<T> Stage<T>::views(const Mat<T>& qkv) const {
  return query_key_value(qkv, attention_.head);
}

template <class T>
RowSet<T> Stage<T>::head_rows(const Mat<T>& qkv, int64_t column, int64_t heads) const {
  const int64_t dim = model_.head_dim;
  return {qkv.data() + column,
          static_cast<int64_t>(qkv.extent(0)) * heads,
          dim,
          heads,
          static_cast<int64_t>(qkv.extent(1)),
          dim};
}

// What a product reads: every token, from the ranks that hold them.
template <class T>
Mat<T> Stage<T>::all_tokens(const Mat<T>& own, const char* buffer) {
  if (!cuts_tokens()) return own;
  const auto all = work_.get<T>(buffer);
  tp_.gather(own.data(), all.data(), plan_.tokens, own.extent(1));
  return all;
}

template <class T>
void Stage<T>::embed(const Kept& k, const Mat<T>& x) {
  const BlockUse<T> token(access_, slots_.token.block);
  BlockUse<T> position;
  Mat<const T> positions(nullptr, 0, 0);
  if (slots_.position.present()) {
    position = BlockUse<T>(access_, slots_.position.block);
    positions = position.values().matrix(slots_.position);
  }
  const DropoutMask drop = mask("embedding", 0, model_.embedding_dropout, k);
  const auto table = token.values().matrix(slots_.token);
  if (split_.ranks == 1) {
    ScopedPart part(Part::embedding);
    embedding_forward<T>(x, table, positions, k.in.tokens, k.in.positions, 0, drop,
                         k.in.token_index);
    return;
  }
  // One rank has the row, the others add nothing: exact in any type.
  const int64_t hidden = model_.hidden_size;
  const Mat<T> partial(reinterpret_cast<T*>(work_.get<T>("partial").data()), plan_.tokens, hidden);
  {
    ScopedPart part(Part::embedding);
    embedding_forward<T>(partial, table, Mat<const T>(nullptr, 0, 0), k.in.tokens, k.in.positions,
                         split_.local(model_.vocab_size).first);
  }
  tp_.template reduce<T>(partial.data(), x.data(), plan_.tokens, hidden,
                         work_.get<T>("received").data());
  ScopedPart part(Part::embedding);
  const Mat<T> own(x.data(), plan_.own_tokens.count, hidden);
  add_positions<T>(own, positions, k.in.positions + plan_.own_tokens.first, drop,
                   own_token_index(k));
}

template <class T>
void Stage<T>::first_norm(const At& a) {
  ScopedPart part(Part::norm);
  norm_forward<T>(model_.norm, a.tensor("attention.normed"),
                  a.sums("attention.norm.statistics").data(), RowSet<T>(a.tensor("input")),
                  norm_parameters(a.w, a.slots.attention_norm), model_.norm_eps);
}

// The block's input and its first norm; the input is there, or comes from the block before.
template <class T>
void Stage<T>::enter_block(const At& a, const At* before) {
  if (before == nullptr) return first_norm(a);
  ScopedPart part(Part::norm);
  const char* stream = model_.residual == Residual::sequential ? "mlp.input" : "input";
  residual_norm_forward<T>(
      model_.norm, a.tensor("attention.normed"), a.sums("attention.norm.statistics").data(),
      a.tensor("input"), before->tensor(stream), work_.get<T>("delta"),
      before->w.vector(before->slots.down.bias), norm_parameters(a.w, a.slots.attention_norm),
      model_.norm_eps, mask("mlp", before->layer, model_.residual_dropout, a.kept),
      own_token_index(a.kept));
}

// One product for the whole matrix: in the fast mode.
template <class T>
bool Stage<T>::is_one_product(const ShardUnits& units) const {
  return !blueprint_.config.numerics.reproducible && units.compute.size() == 1 &&
         units.compute.front().size() == 1;
}

// y = x W^T for this rank's columns; returns whether the bias is in it already. Between virtual
// shards it never is, so that its place does not follow the layout.
template <class T>
bool Stage<T>::project(const Mat<T>& y, const Mat<const T>& x, const At& a,
                       const LinearSlots& slots, const ShardUnits& units) {
  ScopedPart part(Part::matmul);
  const auto weight = a.w.matrix(slots.weight);
  if (is_one_product(units))
    return linear_forward_with_bias<T>(y, x, weight, a.w.vector(slots.bias));
  column_forward<T>(y, x, weight, units);
  return false;
}

template <class T>
void Stage<T>::project_qkv(const At& a) {
  const auto x = all_tokens(a.tensor("attention.normed"), "gathered");
  const auto y = a.tensor(model_.qk_norm ? "attention.qkv_raw" : "attention.qkv");
  const bool is_biased = project(y, x, a, a.slots.qkv, units_.qkv);
  if (is_biased || !a.slots.qkv.bias.present()) return;
  ScopedPart part(Part::activation);
  add_bias<T>(y, a.w.vector(a.slots.qkv.bias));
}

// Statistics of the query heads come first, then those of the key heads, each shard's together.
template <class T>
void Stage<T>::qk_norm_forward(const At& a) {
  ScopedPart part(Part::norm);
  const auto raw = a.tensor("attention.qkv_raw");
  const auto qkv = a.tensor("attention.qkv");
  Real* statistics = a.sums("attention.qk_norm.statistics").data();
  const int64_t dim = model_.head_dim, heads = attention_.head.heads;
  device::copy(qkv.data(), raw.data(),
               bytes_of(qkv));  // values pass through; queries and keys are overwritten
  const auto one = [&](const NormSlots& slots, int64_t head, int64_t count) {
    norm_forward<T>(model_.norm, head_rows(qkv, head * dim, count),
                    statistics + 2 * plan_.tokens * head, head_rows(raw, head * dim, count),
                    norm_parameters(a.w, slots), model_.norm_eps);
  };
  const int64_t shards = split_.local_shards(), queries = heads / shards;
  for (int64_t s = 0; s < shards; ++s) one(a.slots.q_norm, s * queries, queries);
  for (int64_t h = 0; h < attention_.head.kv_heads; h += keys_.per_shard)
    one(a.slots.k_norm, heads + h, keys_.per_shard);
}

template <class T>
AttentionDropout Stage<T>::attention_dropout(const At& a, int64_t first_head) const {
  return {mask("attention.weights", a.layer, model_.attention_dropout, a.kept),
          a.kept.in.first_token, split_.local(model_.num_heads).first + first_head,
          model_.num_heads};
}

// Norm and rotation of queries and keys, where there are any, and attention; both from what the
// projection left.
template <class T>
void Stage<T>::attend(const At& a) {
  const auto qkv = a.tensor("attention.qkv");
  ScopedPart part(Part::attention);
  attention_forward<T>(a.tensor("attention.heads"), HeadRows<Real>(a.sums("attention.log_sum")),
                       views(qkv), a.kept.in.document_start, attention_, attention_dropout(a, 0),
                       work_.get<Real>("attention.scratch").data());
}

template <class T>
void Stage<T>::rotate(const Mat<T>& qkv, Rotation rotation, const StageInputs& in) {
  if (model_.position != PositionKind::rope) return;
  ScopedPart part(Part::attention);
  const HeadShape& h = attention_.head;  // the keys' heads stand behind the queries'
  rope<T>(model_.rope_style, rotation, views(qkv).q, h.heads + h.kv_heads, h.head_dim, plan_.tokens,
          rope_table_, in.positions);
}

// The stream between attention and MLP, and its norm.
template <class T>
void Stage<T>::mlp_input(const At& a) {
  ScopedPart part(Part::norm);
  residual_norm_forward<T>(
      model_.norm, a.tensor("mlp.normed"), a.sums("mlp.norm.statistics").data(),
      a.tensor("mlp.input"), a.tensor("input"), work_.get<T>("delta"),
      a.w.vector(a.slots.output.bias), norm_parameters(a.w, a.slots.mlp_norm), model_.norm_eps,
      mask("attention", a.layer, model_.residual_dropout, a.kept), own_token_index(a.kept));
}

template <class T>
void Stage<T>::up_and_activate(const At& a) {
  const bool sequential = model_.residual == Residual::sequential;
  const auto x = all_tokens(a.tensor(sequential ? "mlp.normed" : "attention.normed"), "gathered");
  const auto up = a.tensor("mlp.up");
  const bool is_biased = project(up, x, a, a.slots.up, units_.up);
  ScopedPart part(Part::activation);
  activation_forward<T>(model_.activation, a.tensor("mlp.activated"), up,
                        is_biased ? Vec<const T>(nullptr, 0) : a.w.vector(a.slots.up.bias));
}

// delta = what the attention, the MLP or both add to the stream, before biases.
template <class T>
void Stage<T>::add_branches(const At& a, Branches branches) {
  const auto delta = work_.get<T>("delta");
  const auto heads = a.tensor("attention.heads");
  const auto activated = a.tensor("mlp.activated");
  const auto output = a.w.matrix(a.slots.output.weight);
  const auto down = a.w.matrix(a.slots.down.weight);
  shard_sum_->run(delta.data(), plan_.tokens, [&](int64_t s, auto* out) {
    ScopedPart part(Part::matmul);
    Write write = Write::overwrite;
    if (branches != Branches::mlp) {
      row_forward<T>(out, Mat<const T>(heads), output, units_.output.compute[s], write);
      write = Write::add;
    }
    if (branches != Branches::attention)
      row_forward<T>(out, Mat<const T>(activated), down, units_.down.compute[s], write);
  });
}

template <class T>
void Stage<T>::forward_attention(const At& a) {
  project_qkv(a);
  if (model_.qk_norm) qk_norm_forward(a);
  rotate(a.tensor("attention.qkv"), Rotation::forward, a.kept.in);
  attend(a);
}

template <class T>
void Stage<T>::forward_block(const At& a) {
  forward_attention(a);
  if (model_.residual == Residual::parallel) {
    up_and_activate(a);
    add_branches(a, Branches::both);
    if (a.slots.output.bias.present())
      add_bias<T>(work_.get<T>("delta"), a.w.vector(a.slots.output.bias));
    return;
  }
  add_branches(a, Branches::attention);
  mlp_input(a);
  up_and_activate(a);
  add_branches(a, Branches::mlp);
}

// What the plan did not keep. Biases are in what was kept; they must not be added twice.
template <class T>
void Stage<T>::recompute(const At& a) {
  const bool sequential = model_.residual == Residual::sequential;
  first_norm(a);
  if (blueprint_.config.grid.recompute == Recompute::full) {
    forward_attention(a);
    if (sequential) {
      add_branches(a, Branches::attention);
      mlp_input(a);
    }
    up_and_activate(a);
    return;
  }
  if (model_.qk_norm) {
    qk_norm_forward(a);
    rotate(a.tensor("attention.qkv"), Rotation::forward, a.kept.in);
  }
  attend(a);
  if (sequential) {
    ScopedPart part(Part::norm);
    norm_forward<T>(model_.norm, a.tensor("mlp.normed"), a.sums("mlp.norm.statistics").data(),
                    RowSet<T>(a.tensor("mlp.input")), norm_parameters(a.w, a.slots.mlp_norm),
                    model_.norm_eps);
  }
  ScopedPart part(Part::activation);
  activation_forward<T>(model_.activation, a.tensor("mlp.activated"), a.tensor("mlp.up"),
                        Vec<const T>(nullptr, 0));
}

template <class T>
void Stage<T>::leave_chunk(const At& last, T* output) {
  ScopedPart part(Part::norm);
  const char* stream = model_.residual == Residual::sequential ? "mlp.input" : "input";
  residual_add<T>(Mat<T>(output, plan_.own_tokens.count, model_.hidden_size), last.tensor(stream),
                  work_.get<T>("delta"), last.w.vector(last.slots.down.bias),
                  mask("mlp", last.layer, model_.residual_dropout, last.kept),
                  own_token_index(last.kept));
}

template <class T>
void Stage<T>::final_norm(const At& last) {
  const BlockUse<T> use(access_, slots_.final_norm.weight.block);
  const TensorSet& head = last.kept.head;
  const char* stream = model_.residual == Residual::sequential ? "mlp.input" : "input";
  ScopedPart part(Part::norm);
  residual_norm_forward<T>(
      model_.norm, head.get<T>("final.normed"), head.get<Real>("final_norm.statistics").data(),
      head.get<T>("final.input"), last.tensor(stream), work_.get<T>("delta"),
      last.w.vector(last.slots.down.bias), norm_parameters(use.values(), slots_.final_norm),
      model_.norm_eps, mask("mlp", last.layer, model_.residual_dropout, last.kept),
      own_token_index(last.kept));
}

#define ESPALIER_INSTANTIATE(T)                                                    \
  template QueryKeyValue<T> Stage<T>::views(const Mat<T>&) const;                  \
  template RowSet<T> Stage<T>::head_rows(const Mat<T>&, int64_t, int64_t) const;   \
  template bool Stage<T>::is_one_product(const ShardUnits&) const;                 \
  template Mat<T> Stage<T>::all_tokens(const Mat<T>&, const char*);                \
  template void Stage<T>::embed(const Kept&, const Mat<T>&);                       \
  template void Stage<T>::enter_block(const At&, const At*);                       \
  template AttentionDropout Stage<T>::attention_dropout(const At&, int64_t) const; \
  template void Stage<T>::rotate(const Mat<T>&, Rotation, const StageInputs&);     \
  template void Stage<T>::forward_block(const At&);                                \
  template void Stage<T>::recompute(const At&);                                    \
  template void Stage<T>::leave_chunk(const At&, T*);                              \
  template void Stage<T>::final_norm(const At&);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
