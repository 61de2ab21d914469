// SPDX-License-Identifier: Apache-2.0
// What must not change a bit: recomputation, micro-batches in flight, an evaluation in between,
// chunks of a pipeline, and weight gradients that wait.
#include <gtest/gtest.h>

#include <map>

#include "model_cases.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

constexpr int64_t kMicroBatches = 3;

/// Parameters of a case, and some micro-batches; dropout where `probability` > 0.
struct Scene {
  Config config;
  Draw draw{23};
  std::vector<double> parameters;  // flat, by the table of one rank in the reproducible mode
  std::vector<Tokens> tokens;
  explicit Scene(const ModelCase& c, double probability = 0.3) : config(c.config) {
    if (probability > 0) set_dropout(config.model, probability);
    parameters = draw_parameters(blueprint().parameters, draw);
    const ParameterTable table = blueprint().parameters;
    for (const ParameterSpec& p : table.parameters)  // the copy of a tied table is equal to it
      if (p.is_copy)
        std::copy_n(parameters.begin() + table.find(p.name).offset, p.size(),
                    parameters.begin() + p.offset);
    for (int64_t m = 0; m < kMicroBatches; ++m)
      tokens.push_back(draw_tokens(config, c.mean_document, draw));
  }
  /// Of the whole model on one rank. One virtual shard, so that a tied table has its copy.
  Blueprint blueprint() const {
    Config c = config;
    c.numerics.reproducible = true;
    c.numerics.virtual_tensor_parallel = 1;
    return make_blueprint(c, 1);
  }
};

using BlockGradients = std::map<std::pair<BlockKind, int64_t>, std::vector<double>>;

BlockGradients by_block(const ParameterTable& table, const std::vector<double>& flat) {
  BlockGradients found;
  for (const BlockSpan& b : table.blocks)
    found[{b.kind, b.layer}].assign(flat.begin() + b.offset, flat.begin() + b.offset + b.size);
  return found;
}

struct Outcome {
  std::vector<double> losses;
  BlockGradients gradients;
};
bool operator==(const Outcome& a, const Outcome& b) {
  return a.losses == b.losses && a.gradients == b.gradients;
}

/// All ranks of a pipeline in this process; what they would send is copied.
class Ranks {
 public:
  Ranks(const Scene& scene, int64_t pipeline, int64_t chunks, PipelineSchedule schedule,
        const GridConfig& recompute = {})
      : scene_(scene) {
    Config c = scene.blueprint().config;
    c.grid.recompute = recompute.recompute;
    c.grid.recompute_interval = recompute.recompute_interval;
    c.grid.pipeline_parallel = pipeline;
    c.grid.virtual_stages = chunks;
    c.grid.pipeline_schedule = schedule;
    c.batch.global_batch_size = c.batch.micro_batch_size * 2 * pipeline;  // any the schedule likes
    for (int64_t r = 0; r < pipeline; ++r) ranks_.push_back(make_rank(c, r));
  }

  int64_t stages() const { return static_cast<int64_t>(ranks_.size()) * chunks(); }

  void forward(int64_t m, Mode mode = Mode::train) {
    const Buffer<double> output("output", boundary());
    for (int64_t g = 0; g < stages(); ++g) {
      Stage<double>& stage = *rank(g).stage;
      if (g > 0) device::copy(stage.input(chunk(g), m), output.data(), output.bytes());
      stage.forward(chunk(g), m, scene_.tokens[m].batch(), output.data(), mode);
    }
  }
  double loss(int64_t m) {
    last().loss(m, m);
    return last().loss_sums(m + 1).back();
  }
  double backward(int64_t m, BackwardPart part) {
    Buffer<double> d_output("d_output", boundary()), d_input("d_input", boundary());
    for (int64_t g = stages() - 1; g >= 0; --g) {
      rank(g).stage->backward(chunk(g), m, d_output.data(), d_input.data(), 0.7, part, m);
      std::swap(d_output, d_input);
    }
    return last().loss_sums(m + 1).back();
  }
  void backward_weight(int64_t m) {
    for (int64_t g = stages() - 1; g >= 0; --g) rank(g).stage->backward_weight(chunk(g), m);
  }
  BlockGradients gradients() const {
    BlockGradients all;
    for (const auto& r : ranks_)
      for (auto& [block, values] : by_block(r->blueprint.parameters, r->gradients.host()))
        all[block] = values;
    return all;
  }

 private:
  struct Rank {
    Blueprint blueprint;
    ParameterStore<double> store;
    ResidentBlocks<double> blocks;
    DeviceList<double> gradients;
    std::unique_ptr<Stage<double>> stage;
    explicit Rank(const Blueprint& b) : blueprint(b), store(blueprint.parameters), blocks(store) {}
  };

  std::unique_ptr<Rank> make_rank(const Config& c, int64_t r) const {
    Blueprint b = make_blueprint(c, c.grid.pipeline_parallel, {r, 0, 0});
    for (ChunkPlan& chunk : b.chunks) chunk.slots = kMicroBatches;
    auto rank = std::make_unique<Rank>(b);
    const ParameterTable whole = scene_.blueprint().parameters;
    std::vector<double> master(b.parameters.flat_size, 0.0);
    for (const ParameterSpec& p : b.parameters.parameters)
      std::copy_n(scene_.parameters.begin() + whole.find(p.name).offset, p.size(),
                  master.begin() + p.offset);
    write_to(rank->store.master(), master);
    rank->gradients = DeviceList<double>(b.parameters.flat_size);
    rank->blocks.set_gradients(rank->gradients.data());
    rank->stage = std::make_unique<Stage<double>>(rank->blueprint, rank->blocks, nullptr);
    rank->stage->reserve_losses(kMicroBatches);
    return rank;
  }
  int64_t chunks() const { return static_cast<int64_t>(ranks_[0]->blueprint.chunks.size()); }
  int64_t boundary() const { return ranks_[0]->stage->boundary_size(); }
  Stage<double>& last() { return *rank(stages() - 1).stage; }
  Rank& rank(int64_t g) { return *ranks_[g % static_cast<int64_t>(ranks_.size())]; }
  int64_t chunk(int64_t g) const { return g / static_cast<int64_t>(ranks_.size()); }

  const Scene& scene_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

constexpr auto kPlain = PipelineSchedule::one_forward_one_backward;

/// One micro-batch after the other.
Outcome in_turn(Ranks ranks) {
  Outcome outcome;
  for (int64_t m = 0; m < kMicroBatches; ++m) {
    ranks.forward(m);
    outcome.losses.push_back(ranks.backward(m, BackwardPart::together));
  }
  outcome.gradients = ranks.gradients();
  return outcome;
}

GridConfig recomputing(Recompute mode, int64_t interval) {
  GridConfig grid;
  grid.recompute = mode;
  grid.recompute_interval = interval;
  return grid;
}

std::vector<ModelCase> some_cases() {
  std::vector<ModelCase> cases;
  for (const ModelCase& c : named_cases())
    if (c.config.batch.seq_length == 17) cases.push_back(c);
  for (ModelCase& c : cases) c.config.model.num_layers = 4;
  return cases;
}

TEST(ModelModes, RecomputationChangesNothing) {
  for (const ModelCase& c : some_cases()) {
    const Scene s(c);
    const Outcome expected = in_turn({s, 1, 1, kPlain});
    for (const Recompute mode : {Recompute::selective, Recompute::full})
      for (const int64_t interval : {1, 2, 3})
        EXPECT_TRUE(in_turn({s, 1, 1, kPlain, recomputing(mode, interval)}) == expected)
            << c.name << " mode " << static_cast<int>(mode) << " interval " << interval;
  }
}

TEST(ModelModes, DropoutShowsInTheComparison) {
  const ModelCase c = some_cases()[0];
  EXPECT_FALSE(in_turn({Scene(c, 0.3), 1, 1, kPlain}) == in_turn({Scene(c, 0.31), 1, 1, kPlain}));
}

// Three micro-batches in their slots, begun and ended in other orders than one after the other.
TEST(ModelModes, MicroBatchesInFlightDoNotDisturbEachOther) {
  for (const ModelCase& c : some_cases()) {
    const Scene s(c);
    const Outcome expected = in_turn({s, 1, 1, kPlain});
    for (const GridConfig& grid :
         {recomputing(Recompute::none, 1), recomputing(Recompute::full, 2)}) {
      Ranks ranks(s, 1, 1, kPlain, grid);
      Outcome found;
      for (const int64_t m : {2, 0, 1}) ranks.forward(m);
      found.losses.push_back(ranks.backward(0, BackwardPart::together));
      found.losses.push_back(ranks.backward(1, BackwardPart::together));
      ranks.forward(0, Mode::evaluate);  // slot 0 is free again
      ranks.loss(0);
      found.losses.push_back(ranks.backward(2, BackwardPart::together));
      found.gradients = ranks.gradients();
      EXPECT_TRUE(found == expected) << c.name;
    }
  }
}

TEST(ModelModes, EvaluationIsTheSameBeforeAndAfterTraining) {
  for (const ModelCase& c : some_cases()) {
    const Scene s(c);
    Ranks ranks(s, 1, 1, kPlain);
    ranks.forward(1, Mode::evaluate);
    const double before = ranks.loss(1);
    ranks.forward(0);
    ranks.backward(0, BackwardPart::together);
    ranks.forward(1, Mode::evaluate);
    EXPECT_EQ(ranks.loss(1), before) << c.name;
    ranks.forward(1, Mode::train);
    EXPECT_NE(ranks.loss(1), before) << c.name << ": nothing was dropped";
  }
}

TEST(ModelModes, ChunksOfAPipelineAreTheWholeModel) {
  struct Cut {
    int64_t ranks, chunks;
  };
  for (const ModelCase& c : some_cases()) {
    const Scene s(c);
    const Outcome expected = in_turn({s, 1, 1, kPlain});
    for (const Cut& cut : {Cut{2, 1}, Cut{4, 1}, Cut{2, 2}}) {
      const auto schedule = cut.chunks > 1 ? PipelineSchedule::interleaved : kPlain;
      EXPECT_TRUE(in_turn({s, cut.ranks, cut.chunks, schedule}) == expected)
          << c.name << " on " << cut.ranks << " ranks with " << cut.chunks << " chunks";
    }
  }
}

// The zero-bubble schedule: gradients of weights follow when others are under way.
TEST(ModelModes, WeightGradientsMayWait) {
  for (const ModelCase& c : some_cases()) {
    const Scene s(c);
    const Outcome expected = in_turn({s, 1, 1, kPlain});
    for (const GridConfig& grid :
         {recomputing(Recompute::none, 1), recomputing(Recompute::selective, 1),
          recomputing(Recompute::full, 2)}) {
      Ranks ranks(s, 2, 1, PipelineSchedule::zero_bubble, grid);
      Outcome found;
      for (const int64_t m : {0, 1, 2}) ranks.forward(m);
      found.losses.push_back(ranks.backward(0, BackwardPart::input));
      found.losses.push_back(ranks.backward(1, BackwardPart::input));
      ranks.backward_weight(0);
      found.losses.push_back(ranks.backward(2, BackwardPart::input));
      ranks.backward_weight(1);
      ranks.backward_weight(2);
      found.gradients = ranks.gradients();
      EXPECT_TRUE(found == expected) << c.name;
    }
  }
}

}  // namespace
}  // namespace espalier::check
