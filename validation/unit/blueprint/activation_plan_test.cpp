// SPDX-License-Identifier: Apache-2.0
// What recomputation and tensor parallelism leave of the activations that are kept.
#include "blueprint/activation_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "blueprint/blueprint.hpp"

namespace espalier {
namespace {

Config base() {
  Config c;
  c.model.vocab_size = 37;
  c.model.hidden_size = 32;
  c.model.intermediate_size = 96;
  c.model.num_layers = 6;
  c.model.num_heads = 8;
  c.model.num_kv_heads = 4;
  c.model.head_dim = 4;
  c.batch.seq_length = 26;
  c.batch.micro_batch_size = 3;
  c.batch.global_batch_size = 12;
  c.grid.data_parallel = 1;
  return c;
}

std::vector<Config> models() {
  std::vector<Config> all = {base(), base(), base()};
  all[1].model.residual = Residual::parallel;
  all[1].model.qk_norm = true;
  all[2].model.activation = Activation::swiglu;
  all[2].model.qk_norm = true;
  return all;
}

using Shapes = std::map<std::string, std::tuple<int64_t, int64_t, Storage>>;
void add_shapes(Shapes& shapes, const std::vector<PlannedTensor>& tensors) {
  for (const PlannedTensor& t : tensors)
    EXPECT_TRUE(shapes.insert({t.name, {t.rows, t.columns, t.storage}}).second)
        << t.name << " twice";
}
std::set<std::string> names(const std::vector<PlannedTensor>& tensors) {
  std::set<std::string> found;
  for (const PlannedTensor& t : tensors) found.insert(t.name);
  return found;
}

TEST(ActivationPlan, KeptAndRecomputedTogetherAreTheBlock) {
  for (Config c : models()) {
    Shapes plain;
    add_shapes(plain, make_activation_plan(c, {}).plain.kept);
    EXPECT_TRUE(make_activation_plan(c, {}).plain.recomputed.empty());
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      c.grid.recompute = mode;
      const ActivationPlan plan = make_activation_plan(c, {});
      Shapes all, again;
      add_shapes(all, plan.recomputed.kept);
      add_shapes(all, plan.recomputed.recomputed);
      EXPECT_EQ(all, plain);
      add_shapes(again, plan.plain.kept);
      EXPECT_EQ(again, plain) << "blocks of which nothing is computed again";
    }
  }
}

TEST(ActivationPlan, RecomputationKeepsLessByMode) {
  for (Config c : models()) {
    const auto kept = [&](Recompute mode) {
      c.grid.recompute = mode;
      return make_activation_plan(c, {}).recomputed.kept;
    };
    const auto all = names(kept(Recompute::none)), some = names(kept(Recompute::selective));
    EXPECT_EQ(names(kept(Recompute::full)), (std::set<std::string>{"input"}));
    EXPECT_TRUE(std::includes(all.begin(), all.end(), some.begin(), some.end()));
    EXPECT_LT(some.size(), all.size());
    // Products are not formed again: what they wrote is kept, but not the attention's result.
    EXPECT_EQ(some.count("mlp.up"), 1u);
    EXPECT_EQ(some.count(c.model.qk_norm ? "attention.qkv_raw" : "attention.qkv"), 1u);
    for (const char* cheap :
         {"attention.heads", "attention.log_sum", "attention.normed", "mlp.activated"})
      EXPECT_EQ(some.count(cheap), 0u) << cheap;
  }
}

TEST(ActivationPlan, OneBlockInTheIntervalIsRecomputed) {
  GridConfig grid;
  EXPECT_FALSE(is_recomputed(grid, 0));
  grid.recompute = Recompute::full;
  std::vector<int64_t> layers;
  for (grid.recompute_interval = 1; grid.recompute_interval <= 4; ++grid.recompute_interval) {
    layers.clear();
    for (int64_t layer = 0; layer < 6; ++layer)
      if (is_recomputed(grid, layer)) layers.push_back(layer);
    EXPECT_EQ(static_cast<int64_t>(layers.size()),
              (6 + grid.recompute_interval - 1) / grid.recompute_interval);
    for (size_t i = 1; i < layers.size(); ++i)
      EXPECT_EQ(layers[i] - layers[i - 1], grid.recompute_interval);
  }
}

// Bytes of the arena by hand: slots times what the blocks keep, and one set that is recomputed.
TEST(ActivationPlan, ArenaBytesCountSlotsAndOneRecomputedSet) {
  Config c = base();
  c.grid.recompute = Recompute::full;
  c.grid.recompute_interval = 2;
  c.grid.pipeline_parallel = 2;
  c.grid.stage_blocks = {4, 2};  // of them recomputed: 2 and 1
  const ElementType type = c.numerics.compute_type;
  for (const int64_t rank : {0, 1}) {
    const Blueprint b = make_blueprint(c, 2, {rank, 0, 0});
    const ActivationPlan& p = b.activations;
    const int64_t again = rank == 0 ? 2 : 1, plain = again;
    int64_t slot = planned_bytes(p.input, type) + again * planned_bytes(p.recomputed.kept, type) +
                   plain * planned_bytes(p.plain.kept, type);
    if (rank == 1) slot += planned_bytes(p.head, type);
    ASSERT_EQ(b.chunks.size(), 1u);
    EXPECT_EQ(b.chunks[0].slots, 2 - rank);  // 1f1b: as many as stages are left
    EXPECT_EQ(activation_bytes(b), b.chunks[0].slots * slot + planned_bytes(p.workspace, type) +
                                       planned_bytes(p.recomputed.recomputed, type));
  }
}

TensorSplit split_of(int64_t ranks, int64_t rank, int64_t shards, bool sequence) {
  TensorSplit s;
  s.ranks = ranks;
  s.rank = rank;
  s.shards = shards;
  s.sequence = sequence;
  return s;
}

const PlannedTensor& find(const std::vector<PlannedTensor>& tensors, const std::string& name) {
  for (const PlannedTensor& t : tensors)
    if (t.name == name) return t;
  ADD_FAILURE() << "no tensor " << name;
  return tensors.front();
}

// 78 tokens, 37 words: neither divides by 4.
TEST(ActivationPlan, RanksShareHeadsNeuronsWordsAndTokens) {
  const Config c = base();
  const int64_t tokens = 78;
  for (const int64_t shards : {4, 8})
    for (const bool sequence : {false, true}) {
      int64_t heads = 0, inner = 0, qkv = 0, words = 0, own = 0;
      for (int64_t rank = 0; rank < 4; ++rank) {
        const ActivationPlan p = make_activation_plan(c, split_of(4, rank, shards, sequence));
        EXPECT_EQ(p.tokens, tokens);
        EXPECT_EQ(p.own_tokens.first, sequence ? own : 0);
        own += p.own_tokens.count;
        const auto& kept = p.plain.kept;
        for (const char* name : {"attention.heads", "attention.qkv", "mlp.up", "mlp.activated"})
          EXPECT_EQ(find(kept, name).rows, tokens) << name;
        for (const char* name : {"input", "attention.normed", "mlp.input", "mlp.normed"}) {
          EXPECT_EQ(find(kept, name).rows, p.own_tokens.count) << name;
          EXPECT_EQ(find(kept, name).columns, 32) << name;
        }
        heads += find(kept, "attention.heads").columns;
        qkv += find(kept, "attention.qkv").columns;
        inner += find(kept, "mlp.activated").columns;
        words += find(p.workspace, "logits").columns;
      }
      EXPECT_EQ(own, sequence ? tokens : 4 * tokens);
      EXPECT_EQ(heads, 8 * 4);
      EXPECT_EQ(inner, 96);
      // 4 key heads on 4 ranks: each once, also where 8 shards use every one twice
      EXPECT_EQ(qkv, (8 + 2 * 4) * 4);
      EXPECT_EQ(words, 37);
    }
}

int64_t portion(int64_t tokens, int64_t vocab, ElementType type, double mib) {
  Config c = base();
  c.batch.micro_batch_size = 1;
  c.batch.seq_length = tokens;
  c.model.vocab_size = vocab;
  c.numerics.compute_type = type;
  c.numerics.logits_mib = mib;
  const ActivationPlan plan = make_activation_plan(c, {});
  for (const PlannedTensor& t : plan.workspace)
    if (t.name == "logits") {
      EXPECT_EQ(t.rows, plan.classifier_rows);
    }
  return plan.classifier_rows;
}

TEST(ActivationPlan, LogitsExistForAPortionOfTheTokens) {
  const double usual = Config{}.numerics.logits_mib;
  EXPECT_EQ(portion(1024, 50257, ElementType::fp32, usual), 1024);  // 196 MiB: all at once
  EXPECT_EQ(portion(1024, 50257, ElementType::fp32, 96), 384);      // 500 fit: 3 portions
  EXPECT_EQ(portion(1024, 50257, ElementType::bf16, 96), 512);      // 1,001 fit: 2 even ones
  EXPECT_EQ(portion(1, 50257, ElementType::fp32, 96), 1);
  EXPECT_EQ(portion(10, 50257, ElementType::fp64, 1e-6), 1);  // not even one
  // What inputs/bench has, at 1024: 7, 2 and 8 portions.
  EXPECT_EQ(portion(65536, 50304, ElementType::bf16, 1024), 9472);
  EXPECT_EQ(portion(16384, 50304, ElementType::bf16, 1024), 8192);
  EXPECT_EQ(portion(32768, 128256, ElementType::bf16, 1024), 4096);
}

// Within the limit but for a single token, within the tokens, no more portions than that takes.
TEST(ActivationPlan, PortionsOfTheLogitsAreEvenAndFit) {
  for (const int64_t tokens : {1, 7, 127, 128, 129, 1000, 4096})
    for (const int64_t vocab : {2, 97, 50257})
      for (const double mib : {1e-6, 0.01, 0.3, 7.0, 60.0, 1024.0}) {
        const int64_t rows = portion(tokens, vocab, ElementType::fp32, mib);
        int64_t most = static_cast<int64_t>(mib * 1048576 / static_cast<double>(4 * vocab));
        ASSERT_GE(rows, 1);
        ASSERT_LE(rows, std::min(tokens, std::max<int64_t>(most, 1)));
        if (rows == tokens) continue;
        EXPECT_TRUE(rows < 128 || rows % 128 == 0) << rows;
        if (most >= 128) most = most / 128 * 128;
        most = std::max<int64_t>(most, 1);
        const int64_t portions = (tokens + most - 1) / most;
        EXPECT_LE((tokens + rows - 1) / rows, portions) << tokens << " x " << vocab << ", " << mib;
      }
}

// The rows of a product are part of the arithmetic: the plan of a rank cuts no rows that the plan
// of the whole does not cut.
TEST(ActivationPlan, ClassifierRowsDoNotDependOnTheRanks) {
  Config c = base();
  c.model.vocab_size = 50257;
  c.batch.seq_length = 4096;
  c.numerics.logits_mib = 96;
  const int64_t whole = make_activation_plan(c, {}).classifier_rows;
  EXPECT_LT(whole, 4096);
  for (const int64_t ranks : {2, 4, 8})
    EXPECT_EQ(make_activation_plan(c, split_of(ranks, 1, 8, true)).classifier_rows, whole);
}

}  // namespace
}  // namespace espalier
