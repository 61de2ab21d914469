// SPDX-License-Identifier: Apache-2.0
// Construction of a stage, and its passes as sequences of blocks.
#include "engine/stage.hpp"

#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"
#include "tensor/profile.hpp"

namespace espalier {
namespace {

bool recomputes(const Blueprint& b) {
  return b.config.grid.recompute != Recompute::none;
}

}  // namespace

template <class T>
Stage<T>::Stage(const Blueprint& blueprint, BlockAccess<T>& blocks, const Comm* tp)
    : blueprint_(blueprint),
      model_(blueprint_.config.model),
      plan_(blueprint_.activations),
      split_(blueprint_.place.split),
      access_(blocks),
      slots_(make_slots(blueprint_.parameters, blueprint_.config.model)),
      units_(make_units(blueprint_)),
      keys_(model_.num_kv_heads, split_.shards),
      tp_(tp, split_),
      arena_(activation_bytes(blueprint_)),
      head_norms_("head_norms", espalier::norm_widths(model_).heads) {
  const ElementType type = ElementTraits<T>::kType;
  ESPALIER_REQUIRE(blueprint_.config.numerics.compute_type == type,
                   "a stage of {} for a deck of {}", element_name(type),
                   element_name(blueprint_.config.numerics.compute_type));
  ESPALIER_REQUIRE(split_.ranks == 1 || (tp != nullptr && tp->size() == split_.ranks),
                   "a stage of {} tensor-parallel ranks without their communicator", split_.ranks);
  work_ = arena_.carve(plan_.workspace, type);
  if (recomputes(blueprint_)) recomputed_ = arena_.carve(plan_.recomputed.recomputed, type);
  plan_slots();
  shard_sum_ = std::make_unique<ShardSum<T>>(tp_, work_, blueprint_);
  if (model_.position == PositionKind::rope)
    rope_table_ = make_rope_table<Real>(model_, blueprint_.config.batch.seq_length);
  attention_.head = {split_.local(model_.num_heads).count, keys_.local(split_).count,
                     model_.head_dim};
  attention_.sequences = blueprint_.config.batch.micro_batch_size;
  attention_.length = blueprint_.config.batch.seq_length;
  attention_.scale = 1.0 / std::sqrt(static_cast<double>(model_.head_dim));
}

template <class T>
void Stage<T>::plan_slots() {
  const ElementType type = ElementTraits<T>::kType;
  for (const ChunkPlan& chunk : blueprint_.chunks) {
    kept_.emplace_back();
    for (int64_t slot = 0; slot < chunk.slots; ++slot) {
      Kept k;
      k.input = arena_.carve(plan_.input, type);
      if (chunk.is_last) k.head = arena_.carve(plan_.head, type);
      for (int64_t layer = chunk.layers.first; layer < chunk.layers.last; ++layer) {
        const bool again = is_recomputed(blueprint_.config.grid, layer);
        k.layers.push_back(arena_.carve(again ? plan_.recomputed.kept : plan_.plain.kept, type));
        if (again) k.layers.back().include(recomputed_);
        if (splits_backward(blueprint_.config.grid))
          k.split.push_back(arena_.carve(plan_.split, type));
      }
      kept_.back().push_back(std::move(k));
    }
  }
}

template <class T>
typename Stage<T>::At Stage<T>::at(Kept& kept, const ChunkPlan& chunk, int64_t layer,
                                   BlockView<const T> w) {
  const int64_t index = layer - chunk.layers.first;
  return {kept,
          layer,
          index,
          kept.layers[static_cast<size_t>(index)],
          slots_.layers[static_cast<size_t>(layer)],
          w};
}

template <class T>
T* Stage<T>::input(int64_t chunk, int64_t slot) const {
  return kept_[chunk][slot].layers.front().template get<T>("input").data();
}

template <class T>
void Stage<T>::take_tokens(int64_t chunk, int64_t slot, const TokenBatch& tokens, Mode mode) {
  ESPALIER_REQUIRE(tokens.sequences == attention_.sequences && tokens.length == attention_.length,
                   "a micro-batch of {} x {} tokens for a stage of {} x {}", tokens.sequences,
                   tokens.length, attention_.sequences, attention_.length);
  Kept& k = kept(chunk, slot);
  k.mode = mode;
  ScopedPart part(Part::data);
  k.in = staging_.load(k.input, tokens);
}

template <class T>
void Stage<T>::forward_pass(int64_t chunk, int64_t slot, T* output) {
  const ChunkPlan& c = blueprint_.chunks[static_cast<size_t>(chunk)];
  Kept& k = kept(chunk, slot);
  if (c.is_first) embed(k, k.layers.front().template get<T>("input"));
  BlockUse<T> before;
  for (int64_t layer = c.layers.first; layer < c.layers.last; ++layer) {
    const int64_t block = slots_.layers[static_cast<size_t>(layer)].block;
    BlockUse<T> use(access_, block);
    if (layer + 1 < c.layers.last)
      access_.prefetch(slots_.layers[static_cast<size_t>(layer + 1)].block);
    const At here = at(k, c, layer, use.values());
    if (layer > c.layers.first) {
      const At last = at(k, c, layer - 1, before.values());
      enter_block(here, &last);
    } else {
      enter_block(here, nullptr);
    }
    forward_block(here);
    before = std::move(use);
    access_.progress();
  }
  const At last = at(k, c, c.layers.last - 1, before.values());
  if (c.is_last)
    final_norm(last);
  else
    leave_chunk(last, output);
}

template <class T>
void Stage<T>::loss(int64_t slot, int64_t number) {
  const auto chunk = static_cast<int64_t>(kept_.size()) - 1;
  head(kept(chunk, slot), 0.0, Gradient::none);
  keep_losses(number);
}

template <class T>
void Stage<T>::reserve_losses(int64_t count) {
  if (losses_.size() < count * plan_.tokens) losses_ = PinnedBuffer<Real>(count * plan_.tokens);
}

template <class T>
std::vector<double> Stage<T>::loss_sums(int64_t count) const {
  ESPALIER_REQUIRE(count * plan_.tokens <= losses_.size(), "losses of {} micro-batches", count);
  device::Stream::compute().synchronize();
  std::vector<double> sums(static_cast<size_t>(count), 0.0);
  const Real* loss = losses_.data();
  for (double& sum : sums)
    for (int64_t t = 0; t < plan_.tokens; ++t) sum += static_cast<double>(*loss++);
  return sums;
}

template <class T>
void Stage<T>::backward_pass(int64_t chunk, int64_t slot, const T* d_output, T* d_input,
                             double gradient_scale, BackwardPart part) {
  const ChunkPlan& c = blueprint_.chunks[static_cast<size_t>(chunk)];
  Kept& k = kept(chunk, slot);
  const auto d_stream = work_.get<T>("d_stream");
  if (c.is_last)
    backward_head(k, gradient_scale);
  else
    device::copy(d_stream.data(), d_output, boundary_bytes());
  for (int64_t layer = c.layers.last - 1; layer >= c.layers.first; --layer) {
    const int64_t block = slots_.layers[static_cast<size_t>(layer)].block;
    BlockUse<T> use(access_, block);
    if (layer > c.layers.first)
      access_.prefetch(slots_.layers[static_cast<size_t>(layer - 1)].block);
    const At here = at(k, c, layer, use.values());
    if (is_recomputed(blueprint_.config.grid, layer)) recompute(here);
    backward_block(here, part);
    if (part == BackwardPart::together) access_.gradients_done(block);
    access_.progress();
  }
  if (c.is_first)
    backward_embedding(k);
  else
    device::copy(d_input, d_stream.data(), boundary_bytes());
}

// The order of backward_pass().
template <class T>
void Stage<T>::tell_gradients_done(int64_t chunk) {
  const ChunkPlan& c = blueprint_.chunks[static_cast<size_t>(chunk)];
  if (c.is_last) {
    if (slots_.output.block != slots_.token.block) access_.gradients_done(slots_.output.block);
    access_.gradients_done(slots_.final_norm.weight.block);
  }
  for (int64_t layer = c.layers.last - 1; layer >= c.layers.first; --layer)
    access_.gradients_done(slots_.layers[static_cast<size_t>(layer)].block);
  if (!c.is_first) return;
  if (slots_.position.present()) access_.gradients_done(slots_.position.block);
  access_.gradients_done(slots_.token.block);
}

template <class T>
bool Stage<T>::begins_sum(int64_t chunk) const {
  const int64_t layer = blueprint_.chunks[static_cast<size_t>(chunk)].layers.first;
  return access_.is_new(slots_.layers[static_cast<size_t>(layer)].block);
}

template <class T>
void Stage<T>::backward_weight(int64_t chunk, int64_t slot) {
  const ChunkPlan& c = blueprint_.chunks[static_cast<size_t>(chunk)];
  Kept& k = kept(chunk, slot);
  for (int64_t layer = c.layers.last - 1; layer >= c.layers.first; --layer) {
    const int64_t block = slots_.layers[static_cast<size_t>(layer)].block;
    BlockUse<T> use(access_, block);
    const At here = at(k, c, layer, use.values());
    if (is_recomputed(blueprint_.config.grid, layer)) recompute(here);
    const TensorSet& split = k.split[static_cast<size_t>(here.index)];
    const GradientView<Real> g = access_.gradients(block);
    const bool sequential = model_.residual == Residual::sequential;
    const auto d_mlp = all_tokens(split.get<T>("mlp.d_output"), "d_gathered");
    mlp_weights(here, g, d_mlp, split.get<T>("d_up"), UpBias::open);
    attention_weights(
        here, g, sequential ? all_tokens(split.get<T>("attention.d_output"), "d_gathered") : d_mlp,
        split.get<T>("d_qkv"));
    norm_weights(here, g, split.get<Real>("norm.gradients").data(), NormsOf::all);
    access_.gradients_done(block);
    access_.progress();
  }
}

template <class T>
DropoutMask Stage<T>::mask(const char* place, int64_t layer, double probability,
                           const Kept& k) const {
  if (probability == 0.0 || k.mode == Mode::evaluate) return {};
  return {probability, static_cast<uint64_t>(blueprint_.config.run.seed),
          hash_name(fmt::format("layers.{}.{}", layer, place))};
}

template <class T>
const int64_t* Stage<T>::own_token_index(const Kept& k) const {
  return k.in.token_index == nullptr ? nullptr : k.in.token_index + plan_.own_tokens.first;
}

template class Stage<float>;
template class Stage<double>;
template class Stage<bf16>;
template class Stage<fp16>;

}  // namespace espalier
