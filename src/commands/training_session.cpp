// SPDX-License-Identifier: Apache-2.0
#include "commands/training_session.hpp"

#include <cmath>
#include <limits>

#include "commands/spmd_context.hpp"
#include "core/error.hpp"
#include "core/exact_sum.hpp"
#include "core/test_hooks.hpp"
#include "engine/data_parallel_blocks.hpp"
#include "engine/stage.hpp"
#include "optim/adamw.hpp"
#include "optim/gradient_norm.hpp"
#include "optim/loss_scale.hpp"
#include "tensor/profile.hpp"
#include "tensor/sums.hpp"

namespace espalier {
namespace {

std::vector<TokenBatch> as_tokens(const std::vector<MicroBatch>& batches, const ModelConfig& m) {
  const bool drops = m.embedding_dropout > 0 || m.attention_dropout > 0 || m.residual_dropout > 0;
  std::vector<TokenBatch> tokens;
  for (const MicroBatch& b : batches)
    tokens.push_back({b.inputs.data(), b.targets.data(), b.positions.data(),
                      b.document_start.data(), drops ? b.first_token.data() : nullptr, b.sequences,
                      b.length});
  return tokens;
}

AdamWIndexing optimizer_indexing(Indexing master, Indexing gradient, Indexing compute) {
  AdamWIndexing indexing;
  indexing.master = master;
  indexing.gradient = gradient;
  indexing.compute = compute;
  return indexing;
}

template <class T>
class Session final : public TrainingSession {
 public:
  using Real = Acc<T>;
  Session(const Blueprint& blueprint, const Grid& grid)
      : blueprint_(blueprint),
        grid_(grid),
        store_(blueprint_.parameters, blueprint_.owned, blueprint_.config.grid.zero_stage,
               master_type(blueprint_.config)),
        blocks_(blueprint_, store_, grid.shard(), grid.replica()),
        stage_(blueprint_, blocks_, &grid.tp()),
        pipeline_(blueprint_, stage_, &grid.pp()),
        segments_(make_segments(blueprint_.parameters)),
        optimizer_(segments_, blueprint_.owned,
                   optimizer_indexing(store_.master_indexing(), blocks_.sums_indexing(),
                                      store_.compute_indexing()),
                   blueprint_.config.optimizer,
                   is_rounded() ? MasterWeights::rounded : MasterWeights::separate),
        norm_(segments_, own_part(), blocks_.sums_indexing()),
        loss_scale_(blueprint_.config.numerics) {
    store_.initialise(static_cast<uint64_t>(blueprint_.config.run.seed));
    blocks_.also_progress([this] { pipeline_.progress(); });
  }

  StepOutcome step(const std::vector<MicroBatch>& batches, double learning_rate) override;
  LossSum gradients(const std::vector<MicroBatch>& batches) override;
  LossSum evaluate(const std::vector<MicroBatch>& batches) override;
  TensorSlabs parameters() const override { return weight_slabs(own_part(), Holders::one); }
  TensorSlabs last_gradients() const override {
    return slabs(blocks_.sums_indexing(), blocks_.sums());
  }
  StateTypes state_types() const override {
    return {stored_type(master_type(blueprint_.config)), stored_type(ElementTraits<Real>::kType)};
  }
  TensorSlabs state() const override;
  TensorTargets state_targets() override;
  void add_progress(TrainingProgress& progress) const override;
  void resume(const TrainingProgress& progress) override;
  PipelineTimes pipeline_times() override;

 private:
  enum class Norm { no, start };
  LossSum backward(const std::vector<MicroBatch>& batches, double gradient_scale, Norm norm);
  LossSum combine(const std::vector<double>& sums, const std::vector<MicroBatch>& batches) const;
  SquareSums finish_norm();
  std::string not_finite_parameter(int64_t own) const;

  // What this rank sums and writes for all that hold the same: replicas share nothing.
  const std::vector<OwnedRange>& own_part() const {
    static const std::vector<OwnedRange> none;
    if (blueprint_.rank.data >= blueprint_.zero_shards) return none;
    return blueprint_.partition.owned_by(blueprint_.rank.data);
  }
  // Whether the weights in T are the only ones, and updates are rounded to them.
  bool is_rounded() const { return store_.is_single() && !std::is_same_v<T, Real>; }
  TensorSlabs weight_slabs(const std::vector<OwnedRange>& ranges, Holders holders) const {
    if constexpr (std::is_same_v<T, bf16>)
      if (is_rounded())
        return owned_slabs(blueprint_.parameters, ranges, store_.compute_indexing(),
                           static_cast<const T*>(store_.values()), holders);
    return owned_slabs(blueprint_.parameters, ranges, store_.master_indexing(),
                       static_cast<const Real*>(store_.master()), holders);
  }
  TensorSlabs slabs(Indexing indexing, const Real* buffer) const {
    return owned_slabs(blueprint_.parameters, own_part(), indexing, buffer);
  }
  /// Of all three buffers of the state, the parts in these ranges.
  TensorSlabs state_slabs(const std::vector<OwnedRange>& ranges, Holders holders) const;

  const Blueprint blueprint_;
  const Grid& grid_;
  ParameterStore<T> store_;
  DataParallelBlocks<T> blocks_;
  Stage<T> stage_;
  Pipeline<T> pipeline_;
  std::vector<OptimizerSegment> segments_;
  AdamW<T> optimizer_;
  GradientNorm norm_;
  LossScale loss_scale_;
  Buffer<Real> tied_room_;
};

// The one place where losses of micro-batches become the loss of a global batch: an exact sum, to
// which each data-parallel rank's last stage contributes once.
template <class T>
LossSum Session<T>::combine(const std::vector<double>& sums,
                            const std::vector<MicroBatch>& batches) const {
  constexpr int64_t kBatchSums = 4;
  ExactSum exact;
  uint64_t numbers[ExactSum::kWords + kBatchSums] = {};
  uint64_t* const batch = numbers + ExactSum::kWords;
  const RankPlace& me = blueprint_.rank;
  const bool contributes = me.tensor == 0 &&
                           me.pipeline + 1 == blueprint_.config.grid.pipeline_parallel &&
                           !(is_broken_for_test("loss_sum") && me.data > 0);
  if (contributes) {
    for (const double s : sums) exact.add(s);
    for (int64_t i = 0; i < ExactSum::kWords; ++i)
      numbers[i] = static_cast<uint64_t>(exact.words()[i]);
    for (const MicroBatch& b : batches) {
      batch[0] += static_cast<uint64_t>(b.valid_tokens);
      batch[1] += b.token_hash;
      batch[2] += static_cast<uint64_t>(b.padding);
      batch[3] += static_cast<uint64_t>(b.attention_work);
    }
  }
  grid_.world().all_reduce(numbers, ExactSum::kWords + kBatchSums, ReduceOp::sum);
  ExactSum total;
  int64_t* words = total.words();
  for (int64_t i = 0; i < ExactSum::kWords; ++i) words[i] = static_cast<int64_t>(numbers[i]);
  return {total.value(),
          {static_cast<int64_t>(batch[0]), batch[1], static_cast<int64_t>(batch[2]),
           static_cast<int64_t>(batch[3])}};
}

// Gradients of gradient_scale times the sum of all losses, summed over micro-batches and ranks. The
// device gets all its work, the norm's too, before the host waits for the losses.
template <class T>
LossSum Session<T>::backward(const std::vector<MicroBatch>& batches, double gradient_scale,
                             Norm norm) {
  {
    ScopedPart part(Part::other);
    blocks_.begin_step();
  }
  pipeline_.start_train(as_tokens(batches, blueprint_.config.model), gradient_scale);
  blocks_.finish_step();
  sum_tied_gradients(blueprint_, blocks_.sums(), blocks_.sums_indexing(), &grid_.pp(), tied_room_);
  if (norm == Norm::start) norm_.start(blocks_.sums());
  return combine(pipeline_.finish_train(), batches);
}

// Over all parameters of the model, the same on every rank.
template <class T>
SquareSums Session<T>::finish_norm() {
  SquareSums own = norm_.finish();
  SquareSums all;
  if (is_broken_for_test("norm_sum")) return own;
  int64_t words[ExactSum::kWords];
  std::copy(own.sum.words(), own.sum.words() + ExactSum::kWords, words);
  grid_.world().all_reduce(words, ExactSum::kWords, ReduceOp::sum);
  std::copy(words, words + ExactSum::kWords, all.sum.words());
  all.first_not_finite = all.sum.not_finite() > 0 ? std::max<int64_t>(0, own.first_not_finite) : -1;
  return all;
}

template <class T>
std::string Session<T>::not_finite_parameter(int64_t own) const {
  const Comm& world = grid_.world();
  const int64_t nobody = std::numeric_limits<int64_t>::max();
  const int64_t first = world.all_reduce(own >= 0 ? int64_t{world.rank()} : nobody, ReduceOp::min);
  if (first == nobody) return "a parameter";
  std::string name;
  if (world.rank() == first) name = blueprint_.parameters.parameters[static_cast<size_t>(own)].name;
  return broadcast_text(world, name, static_cast<int>(first));
}

template <class T>
StepOutcome Session<T>::step(const std::vector<MicroBatch>& batches, double learning_rate) {
  constexpr bool kScales = ElementTraits<T>::kType == ElementType::fp16;
  StepOutcome outcome;
  outcome.loss_scale = loss_scale_.value();
  // Losses are summed, not averaged, and the gradient is divided by the number of valid tokens
  // once, below. In fp16 the sum is divided by the positions of a step beforehand, lest it
  // overflow.
  double scale = 1.0;
  if (kScales) scale = outcome.loss_scale / static_cast<double>(blueprint_.tokens_per_step);
  const LossSum loss = backward(batches, scale, Norm::start);
  outcome.loss = loss.mean();
  outcome.batch = loss.batch;
  if (!std::isfinite(outcome.loss) && !kScales)
    throw NumericalError(
        fmt::format("the loss is {}; lower optimizer.learning_rate, lengthen schedule.warmup_steps "
                    "or use numerics.compute_type = \"fp32\"",
                    outcome.loss));

  const SquareSums squares = finish_norm();
  const double unscale = 1.0 / (static_cast<double>(loss.batch.valid_tokens) * scale);
  outcome.gradient_norm = std::sqrt(squares.sum.value()) * unscale;
  if (!squares.is_finite() && !kScales)
    throw NumericalError(fmt::format(
        "the gradient of {} is not finite at a loss of {}; lower optimizer.learning_rate",
        not_finite_parameter(norm_.square_sums(blocks_.sums()).first_not_finite), outcome.loss));
  if (loss_scale_.judge(squares.is_finite()) == StepVerdict::skip) {
    outcome.skipped = true;
    return outcome;
  }
  const double clip = clip_factor(outcome.gradient_norm, blueprint_.config.optimizer.gradient_clip);
  {
    ScopedPart part(Part::optimizer);
    if (is_rounded())
      optimizer_.update_rounded(store_.values(), blocks_.sums(), learning_rate, unscale * clip,
                                static_cast<uint64_t>(blueprint_.config.run.seed));
    else
      optimizer_.update(store_.master(), blocks_.sums(), store_.separate_compute_copy(),
                        learning_rate, unscale * clip);
  }
  blocks_.parameters_changed();
  return outcome;
}

template <class T>
LossSum Session<T>::gradients(const std::vector<MicroBatch>& batches) {
  const LossSum loss = backward(batches, 1.0, Norm::no);
  Real* sums = blocks_.sums();
  const Real factor = static_cast<Real>(1.0 / static_cast<double>(loss.batch.valid_tokens));
  for (const OwnedRange& range : own_part()) {
    Real* own = sums + (blocks_.sums_indexing() == Indexing::flat ? range.flat : range.compact);
    multiply_by(own, factor, range.size);
  }
  device::Stream::current().synchronize();
  return loss;
}

template <class T>
LossSum Session<T>::evaluate(const std::vector<MicroBatch>& batches) {
  return combine(pipeline_.evaluate(as_tokens(batches, blueprint_.config.model)), batches);
}

template <class T>
TensorSlabs Session<T>::state_slabs(const std::vector<OwnedRange>& ranges, Holders holders) const {
  // Where nothing is sharded, the compact buffers are the flat ones.
  const bool is_sharded = blueprint_.config.grid.zero_stage > 0;
  const Indexing moments = is_sharded ? Indexing::compact : Indexing::flat;
  TensorSlabs all;
  const auto add = [&](const char* group, TensorSlabs part) {
    add_group(part, group);
    all.insert(all.end(), part.begin(), part.end());
  };
  const auto moment_slabs = [&](const Real* buffer) {
    return owned_slabs(blueprint_.parameters, ranges, moments, buffer, holders);
  };
  add(kParameterGroup, weight_slabs(ranges, holders));
  add(kFirstMomentGroup, moment_slabs(optimizer_.first_moment()));
  add(kSecondMomentGroup, moment_slabs(optimizer_.second_moment()));
  return all;
}

template <class T>
TensorSlabs Session<T>::state() const {
  const TensorSlabs own =
      state_slabs(blueprint_.partition.owned_by(blueprint_.own_shard()), Holders::one);
  return share_of_slabs(own, blueprint_.rank.data / blueprint_.zero_shards,
                        blueprint_.zero_replicas);
}

template <class T>
TensorTargets Session<T>::state_targets() {
  return targets_of(state_slabs(blueprint_.owned, Holders::all));
}

template <class T>
void Session<T>::add_progress(TrainingProgress& progress) const {
  const LossScaleState& scale = loss_scale_.state();
  progress.optimizer_updates = optimizer_.state().updates;
  progress.loss_scale = scale.scale;
  progress.loss_scale_good_steps = scale.good_steps;
  progress.loss_scale_skipped_in_a_row = scale.skipped_in_a_row;
  progress.loss_scale_skipped = scale.skipped;
}

template <class T>
void Session<T>::resume(const TrainingProgress& progress) {
  if (!is_broken_for_test("resume_updates")) optimizer_.restore({progress.optimizer_updates});
  // A run in another element type has no loss scale to go on with.
  const bool had_scale = progress.loss_scale != 1.0 || progress.loss_scale_skipped > 0 ||
                         progress.loss_scale_good_steps > 0;
  if (ElementTraits<T>::kType == ElementType::fp16 && had_scale &&
      !is_broken_for_test("resume_loss_scale"))
    loss_scale_.restore({progress.loss_scale, progress.loss_scale_good_steps,
                         progress.loss_scale_skipped_in_a_row, progress.loss_scale_skipped});
  store_.refresh_compute_copy();
  if (!is_broken_for_test("resume_gather")) blocks_.parameters_changed();
}

template <class T>
PipelineTimes Session<T>::pipeline_times() {
  const auto& own = pipeline_.seconds();
  const auto chunks = static_cast<int64_t>(own.size());
  const Comm& pp = grid_.pp();
  std::vector<double> mine, all(static_cast<size_t>(3 * chunks * pp.size()));
  for (const ChunkSeconds& c : own)
    mine.insert(mine.end(), {c.forward, c.backward_input, c.backward_weight});
  pp.all_gather(mine.data(), 3 * chunks, all.data());
  PipelineTimes times;
  times.ranks = pp.size();
  times.makespan = pp.all_reduce(pipeline_.makespan(), ReduceOp::max);
  for (int64_t stage = 0; stage < chunks * pp.size(); ++stage) {
    const double* s =
        &all[static_cast<size_t>(3 * (stage % pp.size() * chunks + stage / pp.size()))];
    times.stages.push_back({s[0], s[1], s[2]});
  }
  return times;
}

}  // namespace

double PipelineTimes::bubble() const {
  double busy = 0.0;
  for (const ChunkSeconds& s : stages) busy += s.total();
  return makespan > 0 ? 1.0 - busy / (makespan * static_cast<double>(ranks)) : 0.0;
}

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

MicroBatchRange own_micro_batches(const Blueprint& b) {
  const MicroBatchSet& own = b.own_micro_batches;
  return {own.first, own.count, own.stride};
}

}  // namespace espalier
