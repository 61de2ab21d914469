// SPDX-License-Identifier: Apache-2.0
// The backward pass of a stage through activations. "d_stream" is the gradient of the residual
// stream: every branch reads it and adds to it; other gradients are overwritten.
#include "core/test_hooks.hpp"
#include "engine/stage.hpp"
#include "layers/activation.hpp"
#include "layers/embedding.hpp"
#include "parallel/rank_sum.hpp"
#include "tensor/profile.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

// Rows of keys, then values, to where the rank keeps them. Rows of dk and dv are `stride` apart.
template <class T>
void place_key_gradients(T* dk, T* dv, int64_t stride, const T* sum, int64_t tokens, int64_t dim) {
  for_each_row(
      "attention.shared_keys", tokens, KOKKOS_LAMBDA(const Row& row) {
        const int64_t t = row.index();
        row.each(dim, [=](int64_t c) {
          dk[t * stride + c] = sum[2 * t * dim + c];
          dv[t * stride + c] = sum[(2 * t + 1) * dim + c];
        });
      });
}

}  // namespace

// Gradient of what a branch added to the stream, for this rank's tokens, and then for all.
template <class T>
Mat<T> Stage<T>::branch_gradient(const At& a, const char* branch, BackwardPart part) {
  const DropoutMask drop = mask(branch, a.layer, model_.residual_dropout, a.kept);
  Mat<T> own = work_.get<T>("d_stream");
  if (drop.active()) {
    const auto dropped = work_.get<T>("d_delta");
    ScopedPart timed(Part::norm);
    apply_dropout<T>(dropped, own, drop, own_token_index(a.kept));
    own = dropped;
  }
  if (part == BackwardPart::input) {
    const auto kept = a.kept.split[static_cast<size_t>(a.index)].template get<T>(
        std::string(branch) + ".d_output");
    device::copy(kept.data(), own.data(), bytes_of(own));
  }
  return all_tokens(own, "d_gathered");
}

// up_bias is added to where that is free; its data() may be null.
template <class T>
typename Stage<T>::UpBias Stage<T>::backward_mlp(const At& a, const Mat<T>& dy, const Mat<T>& d_up,
                                                 const Vec<Real>& up_bias) {
  const auto d_activated = work_.get<T>("d_activated");
  {
    ScopedPart part(Part::matmul);
    row_backward_input<T>(d_activated, dy, a.w.matrix(a.slots.down.weight), units_.down);
  }
  ScopedPart part(Part::activation);
  Real* scratch = up_bias.data() != nullptr ? work_.get<Real>("bias.partials").data() : nullptr;
  const bool is_done = activation_and_bias_backward<T>(model_.activation, d_up, up_bias,
                                                       d_activated, a.tensor("mlp.up"), scratch);
  return is_done ? UpBias::done : UpBias::open;
}

template <class T>
void Stage<T>::backward_attention(const At& a, const Mat<T>& dy, const Mat<T>& d_qkv) {
  {
    ScopedPart part(Part::matmul);
    row_backward_input<T>(work_.get<T>("d_heads"), dy, a.w.matrix(a.slots.output.weight),
                          units_.output);
  }
  if (keys_.sharers > 1)
    shared_key_gradients(a, d_qkv);
  else
    attention_gradients(a, 0, attention_.head.heads, views(d_qkv), views(a.tensor("attention.qkv")),
                        attention_.head.kv_heads);
  rotate(d_qkv, Rotation::inverse, a.kept.in);
  if (model_.qk_norm) qk_norm_backward(a, d_qkv);
}

// Gradients of some heads; d_in and in begin with them.
template <class T>
void Stage<T>::attention_gradients(const At& a, int64_t first_head, int64_t heads,
                                   const QueryKeyValue<T>& d_in, const QueryKeyValue<T>& in,
                                   int64_t kv_heads) {
  ScopedPart part(Part::attention);
  AttentionShape shape = attention_;
  shape.head.heads = heads;
  shape.head.kv_heads = kv_heads;
  const auto from = [&](const Mat<T>& m) {
    return HeadRows<const T>(m.data() + first_head * model_.head_dim, m.extent(1));
  };
  const auto log_sum = a.sums("attention.log_sum");
  attention_backward<T>(d_in, from(work_.get<T>("d_heads")), from(a.tensor("attention.heads")),
                        HeadRows<const Real>(log_sum.data() + first_head, log_sum.extent(1)), in,
                        a.kept.in.document_start, shape, attention_dropout(a, first_head),
                        work_.get<Real>("attention.scratch").data());
}

// Key and value heads that several shards repeat: each shard's gradients by themselves, then their
// sum in the tree of the shards, which may reach over ranks.
template <class T>
void Stage<T>::shared_key_gradients(const At& a, const Mat<T>& d_qkv) {
  const int64_t dim = model_.head_dim, queries = model_.num_heads / split_.shards;
  const int64_t width = 2 * dim, size = plan_.tokens * width, sharers = keys_.sharers;
  const auto partials = work_.get<T>("key_partials");
  const auto d = views(d_qkv), in = views(a.tensor("attention.qkv"));
  const int64_t first_kv = keys_.local(split_).first;
  for (int64_t s = 0; s < split_.local_shards(); ++s) {
    const int64_t shard = split_.first_shard() + s, entry = shard % sharers;
    const int64_t kv = keys_.first_head(shard) - first_kv, head = s * queries;
    T* partial = partials.data() + entry * size;
    attention_gradients(
        a, head, queries,
        {{d.q.data + head * dim, d.q.stride}, {partial, width}, {partial + dim, width}},
        {{in.q.data + head * dim, in.q.stride},
         {in.k.data + kv * dim, in.k.stride},
         {in.v.data + kv * dim, in.v.stride}},
        1);
    const bool group_done = entry + 1 == sharers || s + 1 == split_.local_shards();
    if (!group_done) continue;
    if (!is_broken_for_test("key_sum")) tp_.share(partials.data(), size, sharers);
    ScopedPart part(Part::attention);
    const RankPieces<T> shares{partials.data(), partials.data() + size, size, 0,
                               static_cast<int>(sharers)};
    sum_over_ranks<T, T>(shares, partials.data(), size);
    place_key_gradients(d.k.data + kv * dim, d.v.data + kv * dim, d.k.stride,
                        static_cast<const T*>(partials.data()), plan_.tokens, dim);
  }
}

template <class T>
void Stage<T>::backward_block(const At& a, BackwardPart part) {
  const bool sequential = model_.residual == Residual::sequential;
  const bool together = part == BackwardPart::together;
  const TensorSet& kept = together ? work_ : a.kept.split[static_cast<size_t>(a.index)];
  const auto d_qkv = kept.get<T>("d_qkv"), d_up = kept.get<T>("d_up");
  const auto d_normed = work_.get<T>("d_normed");
  Real* norms =
      together ? work_.get<Real>("norm.result").data() : kept.get<Real>("norm.gradients").data();
  GradientView<Real> g;
  if (together) g = access_.gradients(a.slots.block);
  const GradientView<Real>* at_once = together && adds_norms_at_once() ? &g : nullptr;
  const auto up = a.w.matrix(a.slots.up.weight), qkv = a.w.matrix(a.slots.qkv.weight);
  const auto input_gradient = [&](Branches branches) {
    shard_sum_->run(d_normed.data(), plan_.tokens, [&](int64_t s, auto* out) {
      ScopedPart timed(Part::matmul);
      Write write = Write::overwrite;
      if (branches != Branches::attention) {
        column_backward_input<T>(out, Mat<const T>(d_up), up, units_.up.input[s], write);
        write = Write::add;
      }
      if (branches != Branches::mlp)
        column_backward_input<T>(out, Mat<const T>(d_qkv), qkv, units_.qkv.input[s], write);
    });
    access_.progress();
  };
  auto dy = branch_gradient(a, "mlp", part);
  const auto up_bias =
      backward_mlp(a, dy, d_up, together ? g.vector(a.slots.up.bias) : Vec<Real>(nullptr, 0));
  if (together) mlp_weights(a, g, dy, d_up, up_bias);
  if (sequential) {
    input_gradient(Branches::mlp);
    stream_norm_backward(a.slots.mlp_norm, a.w, a.tensor("mlp.input"),
                         a.sums("mlp.norm.statistics"), d_normed, Accumulate::yes,
                         norms + norm_widths(model_).tokens / 2, at_once);
    dy = branch_gradient(a, "attention", part);
  }
  backward_attention(a, dy, d_qkv);
  if (model_.qk_norm) sum_head_norms(norms + norm_widths(model_).tokens);
  if (together) attention_weights(a, g, dy, d_qkv);
  input_gradient(sequential ? Branches::attention : Branches::both);
  stream_norm_backward(a.slots.attention_norm, a.w, a.tensor("input"),
                       a.sums("attention.norm.statistics"), d_normed, Accumulate::yes, norms,
                       at_once);
  sum_token_norms(norms, norm_widths(model_).tokens);
  if (together) norm_weights(a, g, norms, at_once ? NormsOf::heads : NormsOf::all);
}

template <class T>
void Stage<T>::backward_embedding(const Kept& k) {
  const Mat<T> own = work_.get<T>("d_stream");
  const DropoutMask drop = mask("embedding", 0, model_.embedding_dropout, k);
  if (drop.active()) {
    ScopedPart part(Part::embedding);
    apply_dropout<T>(own, own, drop, own_token_index(k));
  }
  const auto dx = all_tokens(own, "d_gathered");
  // Rows are added to: where the sum begins here and not with the output's product into a tied
  // table, the table is cleared.
  const auto table = [&](const Slot& slot) {
    const GradientView<Real> g = access_.gradients(slot.block);
    const Mat<Real> rows = g.matrix(slot);
    if (g.write == Write::overwrite) device::fill(rows.data(), 0, bytes_of(rows));
    return rows;
  };
  {
    ScopedPart part(Part::embedding);
    embedding_backward<T>(table(slots_.token), dx, k.in.tokens,
                          split_.local(model_.vocab_size).first);
  }
  if (slots_.position.present()) {
    ScopedPart part(Part::embedding);
    embedding_backward<T>(table(slots_.position), dx, k.in.positions);
    access_.gradients_done(slots_.position.block);
  }
  access_.gradients_done(slots_.token.block);
  access_.progress();
}

#define ESPALIER_INSTANTIATE(T)                                    \
  template void Stage<T>::backward_block(const At&, BackwardPart); \
  template void Stage<T>::backward_embedding(const Kept&);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
