// SPDX-License-Identifier: Apache-2.0
// The end of the model: output projection and loss, for some tokens at a time, so that all logits
// never exist at once, nor those of the whole vocabulary on one of several ranks.
#include <algorithm>

#include "core/test_hooks.hpp"
#include "engine/stage.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/sharded_cross_entropy.hpp"
#include "tensor/profile.hpp"
#include "tensor/sums.hpp"

namespace espalier {

// Losses of `rows` tokens from `first` on, and the gradients of their logits in place.
template <class T>
void Stage<T>::token_losses(const Kept& k, int64_t first, const Mat<T>& logits,
                            double gradient_scale, Gradient gradient) {
  const int64_t rows = logits.extent(0), columns = logits.extent(1);
  const int32_t* targets = k.in.targets + first;
  Real* losses = work_.get<Real>("losses").data() + first;
  if (split_.shards == 1) {
    ScopedPart part(Part::loss);
    cross_entropy<T>(logits, targets, losses, model_.logit_scale, gradient_scale, gradient);
    return;
  }
  const auto statistics = work_.get<Real>("shard.statistics");
  const auto log_terms = work_.get<Real>("shard.log_terms");
  const int64_t stride = rows * kShardStatistics;
  const auto each = [&](const auto& f) {
    ScopedPart part(Part::loss);
    for (int64_t s = 0; s < split_.local_shards(); ++s) {
      const int64_t shard = split_.first_shard() + s;
      const Range run = cut_evenly(model_.vocab_size, split_.shards, shard);
      const int64_t before = run.first - split_.local(model_.vocab_size).first;
      f(run, logits.data() + before, statistics.data() + shard * stride);
    }
  };
  each([&](const Range& run, T* z, Real* numbers) {
    shard_statistics<T>(z, columns, rows, run.count, targets, run.first, model_.logit_scale,
                        gradient, numbers);
  });
  if (!is_broken_for_test("loss_statistics")) tp_.share(statistics.data(), stride, split_.shards);
  {
    ScopedPart part(Part::loss);
    combine_shards<T>(losses, log_terms.data(), statistics.data(), split_.shards, rows, targets);
  }
  if (gradient == Gradient::none) return;
  each([&](const Range& run, T* z, const Real* numbers) {
    shard_gradient<T>(z, columns, rows, run.count, targets, run.first, model_.logit_scale,
                      gradient_scale, numbers, log_terms.data());
  });
}

// With gradients: of the output's weight, and of what the projection reads, in
// "final.gradient".
template <class T>
void Stage<T>::head(Kept& k, double gradient_scale, Gradient mode) {
  const BlockUse<T> use(access_, slots_.output.block);
  const auto weight = use.values().matrix(slots_.output);
  const auto normed = all_tokens(k.head.template get<T>("final.normed"), "gathered");
  const auto gradient = work_.get<T>("final.gradient");
  const auto all_logits = work_.get<T>("logits");
  const int64_t tokens = plan_.tokens, hidden = model_.hidden_size, vocab = slots_.output.rows;
  GradientView<Real> g;
  if (mode == Gradient::in_place) g = access_.gradients(slots_.output.block);
  for (int64_t first = 0; first < tokens; first += plan_.classifier_rows) {
    const int64_t rows = std::min(plan_.classifier_rows, tokens - first);
    const Mat<T> logits(all_logits.data(), rows, vocab);
    const Mat<T> x(normed.data() + first * hidden, rows, hidden);
    {
      ScopedPart part(Part::matmul);
      column_forward<T>(logits, x, weight, units_.vocabulary);
    }
    token_losses(k, first, logits, gradient_scale, mode);
    if (mode == Gradient::none) continue;
    shard_sum_->local(gradient.data(), first, rows, [&](int64_t s, auto* out) {
      ScopedPart part(Part::matmul);
      column_backward_input<T>(out, Mat<const T>(logits), weight, units_.vocabulary.input[s],
                               Write::overwrite);
    });
    ScopedPart part(Part::matmul);
    column_backward_weight<T>(g.matrix(slots_.output), logits, x, units_.vocabulary, g.write);
    g.write = Write::add;
  }
  if (mode == Gradient::in_place) shard_sum_->finish(gradient.data(), tokens);
}

template <class T>
void Stage<T>::keep_losses(int64_t number) {
  ESPALIER_REQUIRE((number + 1) * plan_.tokens <= losses_.size(), "no room for losses {}", number);
  device::copy(losses_.data() + number * plan_.tokens, work_.get<Real>("losses").data(),
               plan_.tokens * kReal);
}

template <class T>
void Stage<T>::backward_head(Kept& k, double gradient_scale) {
  head(k, gradient_scale, Gradient::in_place);
  const int64_t block = slots_.output.block;
  // A table that is tied without a copy gets the rest of its gradient from the embedding.
  if (block != slots_.token.block) access_.gradients_done(block);
  access_.progress();
  const NormSlots& slots = slots_.final_norm;
  const BlockUse<T> use(access_, slots.weight.block);
  const GradientView<Real> g = access_.gradients(slots.weight.block);
  const bool at_once = adds_norms_at_once();
  const auto result = work_.get<Real>("norm.result");
  const int64_t width = slots.weight.columns + (slots.bias.present() ? slots.bias.columns : 0);
  stream_norm_backward(slots, use.values(), k.head.template get<T>("final.input"),
                       k.head.template get<Real>("final_norm.statistics"),
                       work_.get<T>("final.gradient"), Accumulate::no, result.data(),
                       at_once ? &g : nullptr);
  if (!at_once) {
    sum_token_norms(result.data(), width);
    const int64_t hidden = model_.hidden_size;
    add_to(g.vector(slots.weight).data(), result.data(), hidden);
    if (slots.bias.present()) add_to(g.vector(slots.bias).data(), result.data() + hidden, hidden);
  }
  access_.gradients_done(slots.weight.block);
}

#define ESPALIER_INSTANTIATE(T)                          \
  template void Stage<T>::head(Kept&, double, Gradient); \
  template void Stage<T>::keep_losses(int64_t);          \
  template void Stage<T>::backward_head(Kept&, double);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(double)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)

}  // namespace espalier
