// SPDX-License-Identifier: Apache-2.0
// Construction of a stage, and the two passes as sequences of blocks.
#include "engine/stage.hpp"

#include <cmath>

#include "core/error.hpp"
#include "tensor/profile.hpp"

namespace espalier {
namespace {

int64_t arena_size(const Blueprint& b) {
  const ActivationPlan& plan = b.activations;
  const ElementType type = b.config.numerics.compute_type;
  return planned_bytes(plan.input, type) + planned_bytes(plan.head, type) +
         planned_bytes(plan.workspace, type) +
         b.config.model.num_layers * planned_bytes(plan.block, type);
}

}  // namespace

template <class T>
Stage<T>::Stage(const Blueprint& blueprint, const ParameterStore<T>& parameters)
    : blueprint_(blueprint),
      model_(blueprint_.config.model),
      parameters_(parameters),
      slots_(make_slots(blueprint_)),
      arena_(arena_size(blueprint_)) {
  const ElementType type = ElementTraits<T>::kType;
  ESPALIER_REQUIRE(blueprint_.config.numerics.compute_type == type,
                   "a stage of {} for a deck of {}", element_name(type),
                   element_name(blueprint_.config.numerics.compute_type));
  const ActivationPlan& plan = blueprint_.activations;
  input_ = arena_.carve(plan.input, type);
  head_ = arena_.carve(plan.head, type);
  work_ = arena_.carve(plan.workspace, type);
  for (int64_t l = 0; l < model_.num_layers; ++l) blocks_.push_back(arena_.carve(plan.block, type));
  if (model_.position == PositionKind::rope)
    rope_table_ = make_rope_table<Real>(model_, blueprint_.config.batch.seq_length);
  attention_.head = {model_.num_heads, model_.num_kv_heads, model_.head_dim};
  attention_.sequences = blueprint_.config.batch.micro_batch_size;
  attention_.length = blueprint_.config.batch.seq_length;
  attention_.scale = 1.0 / std::sqrt(static_cast<double>(model_.head_dim));
}

template <class T>
typename Stage<T>::Inputs Stage<T>::load(const TokenBatch& tokens) {
  ScopedPart part(Part::data);
  const int64_t count = tokens.sequences * tokens.length;
  ESPALIER_REQUIRE(tokens.sequences == attention_.sequences && tokens.length == attention_.length,
                   "a micro-batch of {} x {} tokens for a stage of {} x {}", tokens.sequences,
                   tokens.length, attention_.sequences, attention_.length);
  const auto copy = [&](const char* name, const int32_t* from) {
    auto target = input_.get<int32_t>(name);
    Kokkos::deep_copy(
        Vec<int32_t>(target.data(), count),
        Kokkos::View<const int32_t*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
            from, count));
    return target.data();
  };
  return {copy("inputs", tokens.inputs), copy("targets", tokens.targets),
          copy("positions", tokens.positions), copy("document_start", tokens.document_start)};
}

template <class T>
double Stage<T>::evaluate(const TokenBatch& tokens) {
  const Inputs in = load(tokens);
  forward_trunk(in);
  return head(in, Head::evaluate, 0.0, nullptr);
}

template <class T>
double Stage<T>::train(const TokenBatch& tokens, double gradient_scale, Real* gradients,
                       const BackwardHooks& hooks) {
  hooks_ = hooks;
  const auto done = [&](size_t block) {
    if (hooks.block_done) hooks.block_done(block);
    if (hooks.progress) hooks.progress();
  };
  const Inputs in = load(tokens);
  forward_trunk(in);
  const double loss = head(in, Head::train, gradient_scale, gradients);
  backward_final_norm(gradients);
  done(static_cast<size_t>(model_.num_layers) + 1);
  for (int64_t layer = model_.num_layers - 1; layer >= 0; --layer) {
    backward_block(layer, in, gradients);
    done(static_cast<size_t>(layer) + 1);
  }
  backward_embedding(in, gradients);
  done(0);
  return loss;
}

template class Stage<float>;
template class Stage<double>;
template class Stage<bf16>;
template class Stage<fp16>;

}  // namespace espalier
