// SPDX-License-Identifier: Apache-2.0
#include "commands/training_session.hpp"

#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "engine/gradient_tree.hpp"
#include "engine/stage.hpp"
#include "optim/adamw.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/loss_scale.hpp"
#include "parallel/gradient_reducer.hpp"
#include "tensor/profile.hpp"

namespace espalier {
namespace {

TokenBatch as_tokens(const MicroBatch& b) {
  return {b.inputs.data(),         b.targets.data(), b.positions.data(),
          b.document_start.data(), b.sequences,      b.length};
}

// The sums of all micro-batches in the order of the gradient tree: pairs of neighbours where the
// count is even, one after the other where it is odd.
double tree_sum(const double* values, int64_t count) {
  if (count % 2 == 0 && count > 0)
    return tree_sum(values, count / 2) + tree_sum(values + count / 2, count / 2);
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

ReducerOptions reducer_options(const Config& config) {
  ReducerOptions options;
  options.bucket_bytes = static_cast<int64_t>(config.grid.bucket_mib * 1024.0 * 1024.0);
  options.wire = config.numerics.gradient_reduce_type;
  options.time = config.grid.overlap ? ReduceTime::during_backward : ReduceTime::at_finish;
  return options;
}

uint64_t bits_of(double x) {
  uint64_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
double from_bits(uint64_t u) {
  double x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

// The one place where losses of micro-batches become the loss of a global batch.
LossSum combine(const Comm& dp, const std::vector<double>& sums,
                const std::vector<MicroBatch>& batches) {
  std::vector<uint64_t> own;
  for (const double s : sums) own.push_back(bits_of(s));
  uint64_t valid = 0, hash = 0;
  for (const MicroBatch& b : batches) {
    valid += static_cast<uint64_t>(b.valid_tokens);
    hash += b.token_hash;
  }
  own.push_back(valid);
  own.push_back(hash);
  if (is_broken_for_test("loss_gather") && dp.rank() > 0) own.assign(own.size(), 0);
  std::vector<uint64_t> all(own.size() * static_cast<size_t>(dp.size()));
  dp.all_gather(own.data(), static_cast<int64_t>(own.size()), all.data());
  std::vector<double> losses;
  LossSum total;
  for (int64_t r = 0; r < dp.size(); ++r) {
    const uint64_t* part = all.data() + r * own.size();
    for (size_t i = 0; i < sums.size(); ++i) losses.push_back(from_bits(part[i]));
    total.valid_tokens += static_cast<int64_t>(part[sums.size()]);
    total.token_hash += part[sums.size() + 1];
  }
  total.sum = tree_sum(losses.data(), static_cast<int64_t>(losses.size()));
  return total;
}

std::vector<GradientSpan> backward_spans(const ParameterTable& table) {
  std::vector<GradientSpan> spans;
  for (auto block = table.blocks.rbegin(); block != table.blocks.rend(); ++block)
    spans.push_back({block->offset, block->size});
  return spans;
}

std::vector<OptimizerSegment> optimizer_segments(const ParameterTable& table) {
  std::vector<OptimizerSegment> segments;
  for (const ParameterSpec& p : table.parameters)
    segments.push_back({p.offset, p.size(), p.decay ? WeightDecay::apply : WeightDecay::none});
  return segments;
}

template <class T>
class Session final : public TrainingSession {
 public:
  using Real = Acc<T>;
  Session(const Blueprint& blueprint, const Grid& grid)
      : blueprint_(blueprint),
        grid_(grid),
        parameters_(blueprint.parameters),
        stage_(blueprint, parameters_),
        tree_(blueprint.parameters.flat_size, reproducible_levels(blueprint)),
        reducer_(grid.dp(), backward_spans(blueprint.parameters),
                 reducer_options(blueprint.config)),
        optimizer_(blueprint.parameters.flat_size, optimizer_segments(blueprint.parameters),
                   blueprint.config.optimizer),
        norm_(blueprint.parameters.flat_size, optimizer_segments(blueprint.parameters)),
        loss_scale_(blueprint.config.numerics) {
    parameters_.initialise(static_cast<uint64_t>(blueprint.config.run.seed));
  }

  StepOutcome step(const std::vector<MicroBatch>& batches, double learning_rate) override;
  LossSum gradients(const std::vector<MicroBatch>& batches) override;
  LossSum evaluate(const std::vector<MicroBatch>& batches) override;
  void* flat_parameters() override { return parameters_.master(); }
  const void* flat_gradients() override { return tree_.current(); }
  void parameters_changed() override { parameters_.refresh_compute_copy(); }
  ElementType master_type() const override { return ElementTraits<Real>::kType; }

 private:
  LossSum backward(const std::vector<MicroBatch>& batches, double gradient_scale);

  Blueprint blueprint_;
  const Grid& grid_;
  ParameterStore<T> parameters_;
  Stage<T> stage_;
  GradientTree<Real> tree_;
  GradientReducer<Real> reducer_;
  AdamW<T> optimizer_;
  GradientNorm norm_;
  LossScale loss_scale_;
};

// Gradients of gradient_scale times the sum of all losses, summed over micro-batches and ranks.
// Reduction of a block starts as soon as the last micro-batch has passed it.
template <class T>
LossSum Session<T>::backward(const std::vector<MicroBatch>& batches, double gradient_scale) {
  const auto count = static_cast<int64_t>(batches.size());
  const auto& blocks = blueprint_.parameters.blocks;
  std::vector<double> sums;
  tree_.begin(count);
  for (int64_t i = 0; i < count; ++i) {
    BackwardHooks hooks;
    if (i + 1 == count && !is_broken_for_test("gradient_reduction")) {
      reducer_.begin(tree_.current());
      hooks.block_done = [&](size_t block) {
        tree_.close(blocks[block].offset, blocks[block].size);
        reducer_.ready(static_cast<int64_t>(blocks.size() - 1 - block));
      };
      hooks.progress = [&] { reducer_.progress(); };
    }
    sums.push_back(stage_.train(as_tokens(batches[i]), gradient_scale, tree_.current(), hooks));
    if (i + 1 < count) tree_.next();
  }
  if (!is_broken_for_test("gradient_reduction")) reducer_.finish();
  return combine(grid_.dp(), sums, batches);
}

template <class T>
StepOutcome Session<T>::step(const std::vector<MicroBatch>& batches, double learning_rate) {
  StepOutcome outcome;
  outcome.loss_scale = loss_scale_.value();
  // Losses are summed, not averaged, and the gradient is divided by the number of valid tokens
  // once, below. In fp16 the sum is divided by the positions of a step beforehand, lest it
  // overflow.
  double scale = 1.0;
  if (ElementTraits<T>::kType == ElementType::fp16)
    scale = outcome.loss_scale / static_cast<double>(blueprint_.tokens_per_step);
  const LossSum loss = backward(batches, scale);
  outcome.loss = loss.mean();
  outcome.valid_tokens = loss.valid_tokens;
  outcome.token_hash = loss.token_hash;
  if (!std::isfinite(outcome.loss) && ElementTraits<T>::kType != ElementType::fp16)
    throw NumericalError(
        fmt::format("the loss is {}; lower optimizer.learning_rate, lengthen schedule.warmup_steps "
                    "or use numerics.compute_type = \"fp32\"",
                    outcome.loss));

  ScopedPart part(Part::optimizer);
  const SquareSums squares = norm_.square_sums(tree_.current());
  const double unscale = 1.0 / (static_cast<double>(loss.valid_tokens) * scale);
  outcome.gradient_norm = std::sqrt(squares.total) * unscale;
  if (!squares.is_finite() && ElementTraits<T>::kType != ElementType::fp16)
    throw NumericalError(fmt::format(
        "the gradient of {} is not finite at a loss of {}; lower optimizer.learning_rate",
        blueprint_.parameters.parameters[squares.first_not_finite].name, outcome.loss));
  if (loss_scale_.judge(squares.is_finite()) == StepVerdict::skip) {
    outcome.skipped = true;
    return outcome;
  }
  const double clip = clip_factor(outcome.gradient_norm, blueprint_.config.optimizer.gradient_clip);
  optimizer_.update(parameters_.master(), tree_.current(), parameters_.separate_compute_copy(),
                    learning_rate, unscale * clip);
  return outcome;
}

template <class T>
LossSum Session<T>::gradients(const std::vector<MicroBatch>& batches) {
  const LossSum loss = backward(batches, 1.0);
  Real* flat = tree_.current();
  const Real factor = static_cast<Real>(1.0 / static_cast<double>(loss.valid_tokens));
  Kokkos::parallel_for(
      "gradients.mean",
      Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>>(0, blueprint_.parameters.flat_size),
      KOKKOS_LAMBDA(const int64_t i) { flat[i] *= factor; });
  Kokkos::fence();
  return loss;
}

template <class T>
LossSum Session<T>::evaluate(const std::vector<MicroBatch>& batches) {
  std::vector<double> sums;
  for (const MicroBatch& b : batches) sums.push_back(stage_.evaluate(as_tokens(b)));
  return combine(grid_.dp(), sums, batches);
}

}  // namespace

std::unique_ptr<TrainingSession> make_training_session(const Blueprint& blueprint,
                                                       const Grid& grid) {
  switch (blueprint.config.numerics.compute_type) {
    case ElementType::fp32: return std::make_unique<Session<float>>(blueprint, grid);
    case ElementType::bf16: return std::make_unique<Session<bf16>>(blueprint, grid);
    case ElementType::fp16: return std::make_unique<Session<fp16>>(blueprint, grid);
    case ElementType::fp64: return std::make_unique<Session<double>>(blueprint, grid);
  }
  throw InternalError("an element type without a session");
}

int64_t reduction_buffer_bytes(const Blueprint& blueprint) {
  const bool wide = blueprint.config.numerics.compute_type == ElementType::fp64;
  return reducer_buffer_bytes(
      backward_spans(blueprint.parameters), reducer_options(blueprint.config),
      wide ? ElementType::fp64 : ElementType::fp32, blueprint.data_parallel);
}

MicroBatchRange own_micro_batches(const Blueprint& blueprint, const Grid& grid) {
  const int64_t first = grid.place().data * blueprint.micro_batches;
  return {first, first + blueprint.micro_batches};
}

}  // namespace espalier
