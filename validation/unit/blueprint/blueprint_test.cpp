// SPDX-License-Identifier: Apache-2.0
// The blueprint: how the batch divides, what a token costs, what is planned to be kept in memory.
#include "blueprint/blueprint.hpp"

#include <gtest/gtest.h>

#include "blueprint/communication_buffers.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

Config gpt2_like() {
  Config c;
  c.model.vocab_size = 512;
  c.model.hidden_size = 384;
  c.model.intermediate_size = 1536;
  c.model.num_layers = 6;
  c.model.num_heads = c.model.num_kv_heads = 6;
  c.model.head_dim = 64;
  c.batch.seq_length = 256;
  c.batch.micro_batch_size = 4;
  c.batch.global_batch_size = 32;
  return c;
}

TEST(Blueprint, DividesTheGlobalBatch) {
  for (const int64_t ranks : {1, 2, 4, 8}) {
    const Blueprint b = make_blueprint(gpt2_like(), ranks);
    EXPECT_EQ(b.data_parallel, ranks);
    EXPECT_EQ(b.config.grid.data_parallel, ranks);
    EXPECT_EQ(b.total_micro_batches, 8);
    EXPECT_EQ(b.micro_batches, 8 / ranks);
    EXPECT_EQ(b.tokens_per_step, 32 * 256);
  }
  Config fixed = gpt2_like();
  fixed.grid.data_parallel = 2;
  EXPECT_EQ(make_blueprint(fixed, 2).micro_batches, 4);
}

TEST(Blueprint, RefusesABatchThatDoesNotDivide) {
  EXPECT_THROW(make_blueprint(gpt2_like(), 3), DeckError);
  EXPECT_THROW(make_blueprint(gpt2_like(), 16), DeckError);
  Config c = gpt2_like();
  c.batch.global_batch_size = 34;
  try {
    make_blueprint(c, 1);
    FAIL() << "not thrown";
  } catch (const DeckError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("batch.global_batch_size = 34"), std::string::npos) << text;
    EXPECT_NE(text.find("try 36"), std::string::npos) << text;
  }
}

// Six flop a weight of a product and token (two forward, four backward); the embedding's lookup has
// none, the output projection does, tied or not. Attention: a query sees (s + 1) / 2 keys on
// average, each costs 4 flop a channel forward (score and value) and twice that backward.
TEST(Blueprint, FlopsPerTokenByHand) {
  const Blueprint b = make_blueprint(gpt2_like(), 1);
  const int64_t hidden = 384, block = hidden * (3 * hidden + hidden + 2 * 1536);
  EXPECT_EQ(b.matmul_flops_per_token, 6 * (6 * block + 512 * hidden));
  EXPECT_EQ(b.attention_flops_per_token, 6 * 3 * 4 * hidden * (256 + 1) / 2);
  EXPECT_EQ(b.flops_per_token(), b.matmul_flops_per_token + b.attention_flops_per_token);
  Config untied = gpt2_like();
  untied.model.tie_embeddings = false;
  EXPECT_EQ(make_blueprint(untied, 1).flops_per_token(), b.flops_per_token());
}

// The well-known 6 N per token, N the parameters that are multiplied with.
TEST(Blueprint, MatmulFlopsAreSixTimesTheMatrices) {
  Config c = gpt2_like();
  c.model.activation = Activation::swiglu;
  c.model.num_kv_heads = 2;
  c.model.tie_embeddings = false;
  const Blueprint b = make_blueprint(c, 1);
  int64_t weights = 0;
  for (const auto& p : b.parameters.parameters)
    if (p.role == ParameterRole::weight || p.name == "output.weight") weights += p.size();
  EXPECT_EQ(b.matmul_flops_per_token, 6 * weights);
}

TEST(Blueprint, FlopsGrowLinearlyInBlocksAndInLengthOnlyByAttention) {
  const auto flops = [](int64_t layers, int64_t length) {
    Config c = gpt2_like();
    c.model.num_layers = layers;
    c.batch.seq_length = length;
    return make_blueprint(c, 1);
  };
  const int64_t one = flops(1, 256).flops_per_token(), two = flops(2, 256).flops_per_token();
  EXPECT_EQ(flops(7, 256).flops_per_token(), one + 6 * (two - one));
  EXPECT_EQ(flops(6, 4096).matmul_flops_per_token, flops(6, 256).matmul_flops_per_token);
  EXPECT_EQ(flops(6, 4095).attention_flops_per_token, 16 * flops(6, 255).attention_flops_per_token);
}

TEST(Blueprint, OperatorsAddUpToTheTotals) {
  const Blueprint b = make_blueprint(gpt2_like(), 1);
  int64_t sum = 0;
  for (const auto& op : b.operators) {
    EXPECT_EQ(op.backward_flops_per_token, 2 * op.forward_flops_per_token) << op.name;
    sum += op.forward_flops_per_token + op.backward_flops_per_token;
  }
  EXPECT_EQ(sum, b.flops_per_token());
}

TEST(Blueprint, PartsHaveDistinctNames) {
  for (int i = 0; i < kPartCount; ++i) {
    EXPECT_STRNE(part_name(static_cast<Part>(i)), "");
    for (int j = 0; j < i; ++j)
      EXPECT_STRNE(part_name(static_cast<Part>(i)), part_name(static_cast<Part>(j)));
  }
  EXPECT_STREQ(part_name(Part::other), "other");
}

int64_t rows_of(const std::vector<PlannedTensor>& tensors, const std::string& name) {
  for (const auto& t : tensors)
    if (t.name == name) return t.rows;
  return -1;
}

TEST(ActivationPlan, KeepsWhatTheModelNeeds) {
  Config c = gpt2_like();
  const ActivationPlan plain = make_activation_plan(c, {});
  EXPECT_EQ(rows_of(plain.plain.kept, "mlp.input"), 4 * 256);
  EXPECT_EQ(rows_of(plain.plain.kept, "attention.qkv_raw"), -1);
  c.model.qk_norm = true;
  c.model.residual = Residual::parallel;
  const ActivationPlan other = make_activation_plan(c, {});
  EXPECT_EQ(rows_of(other.plain.kept, "mlp.input"), -1);
  EXPECT_EQ(rows_of(other.plain.kept, "attention.qkv_raw"), 4 * 256);
}

// Nothing in the plan is of the size sequence times sequence.
TEST(ActivationPlan, GrowsLinearlyWithTheSequence) {
  const auto bytes = [](int64_t length) {
    Config c = gpt2_like();
    c.batch.micro_batch_size = 1;
    c.batch.seq_length = length;
    c.model.vocab_size = 8;
    const ActivationPlan p = make_activation_plan(c, {});
    return planned_bytes(p.plain.kept, ElementType::fp32) +
           planned_bytes(p.workspace, ElementType::fp32);
  };
  const int64_t step = bytes(2048) - bytes(1024);
  EXPECT_EQ(bytes(8192) - bytes(4096), 4 * step);
}

int64_t bytes_of(const MemoryBill& bill, const std::string& name) {
  for (const auto& item : bill.items)
    if (item.name == name) return item.bytes;
  return 0;
}

TEST(MemoryBill, NamesTheLargeThings) {
  Config c = gpt2_like();
  const Blueprint b = make_blueprint(c, 1);
  const MemoryBill bill = make_memory_bill(b, {});
  int64_t sum = 0;
  for (const auto& item : bill.items) {
    EXPECT_GT(item.bytes, 0) << item.name;
    sum += item.bytes;
  }
  EXPECT_EQ(bill.total(), sum);
  EXPECT_EQ(bytes_of(bill, "parameters (master)"), 4 * b.parameters.flat_size);
  EXPECT_EQ(bytes_of(bill, "parameters (compute copy)"), 0);
  EXPECT_EQ(bytes_of(bill, "gradients"), 4 * b.parameters.flat_size);
  EXPECT_EQ(bytes_of(bill, "optimizer state"), 8 * b.parameters.flat_size);
  const MemoryBill without = make_memory_bill(b, {1000, OptimizerState::none});
  EXPECT_EQ(bytes_of(without, "optimizer state"), 0);
  EXPECT_EQ(bytes_of(without, "program and libraries"), 1000);
  c.numerics.compute_type = ElementType::bf16;
  EXPECT_EQ(bytes_of(make_memory_bill(make_blueprint(c, 1), {}), "parameters (compute copy)"),
            2 * b.parameters.flat_size);
}

TEST(MemoryBill, Bf16MasterWeightsAreTheOnlyOnes) {
  Config c = gpt2_like();
  c.numerics.compute_type = ElementType::bf16;
  c.checkpoint.interval = 10;
  c.grid.zero_stage = 1;
  const Blueprint with = make_blueprint(c, 2);
  c.numerics.master_type = ElementType::bf16;
  const Blueprint b = make_blueprint(c, 2);
  const MemoryBill bill = make_memory_bill(b, {}), before = make_memory_bill(with, {});
  const int64_t all = b.parameters.flat_size, own = b.partition.largest_compact_size();
  EXPECT_EQ(bytes_of(bill, "parameters (master)"), 2 * all);  // computed with: never sharded so
  EXPECT_EQ(bytes_of(bill, "parameters (compute copy)"), 0);
  EXPECT_EQ(bytes_of(bill, "gradients"), 4 * all);
  EXPECT_EQ(bytes_of(bill, "optimizer state"), 8 * own);
  EXPECT_EQ(snapshot_bytes(b), 10 * own);
  EXPECT_EQ(checkpoint_bytes(b), 10 * b.parameters.parameter_count);
  EXPECT_EQ(before.total() - bill.total(), 4 * own + 2 * own);  // the master, and its snapshot
  c.grid.zero_stage = 3;
  const Blueprint sharded = make_blueprint(c, 2);
  EXPECT_EQ(bytes_of(make_memory_bill(sharded, {}), "parameters (master)"),
            2 * sharded.partition.largest_compact_size());
}

int64_t checkpoint_item(const Config& config, int64_t ranks) {
  return bytes_of(make_memory_bill(make_blueprint(config, ranks), {}), "checkpoint");
}

TEST(MemoryBill, AnAsynchronousSaveCopiesTheState) {
  Config c = gpt2_like();
  EXPECT_EQ(checkpoint_item(c, 1), 0);
  c.checkpoint.interval = 10;
  const Blueprint b = make_blueprint(c, 1);
  // No padding behind the last tensor is copied as such, but the shards' buffers hold it.
  EXPECT_EQ(snapshot_bytes(b), 12 * b.partition.largest_compact_size());
  EXPECT_GE(snapshot_bytes(b), checkpoint_bytes(b));
  EXPECT_LT(snapshot_bytes(b), checkpoint_bytes(b) * 101 / 100);
  EXPECT_EQ(checkpoint_item(c, 1), snapshot_bytes(b));
  const MemoryBill without = make_memory_bill(b, {1000, OptimizerState::none});
  EXPECT_EQ(bytes_of(without, "checkpoint"), 0);
  c.checkpoint.mode = SaveMode::synchronous;
  EXPECT_EQ(checkpoint_item(c, 1), 0);
  c.checkpoint.mode = SaveMode::asynchronous;
  c.checkpoint.interval = 0;
  c.checkpoint.interval_rule = IntervalRule::young_daly;
  EXPECT_EQ(checkpoint_item(c, 1), snapshot_bytes(b));
}

TEST(MemoryBill, RanksThatHoldTheSameStateShareTheCopying) {
  Config c = gpt2_like();
  c.checkpoint.interval = 10;
  const int64_t alone = checkpoint_item(c, 1);
  c.numerics.compute_type = ElementType::bf16;
  EXPECT_EQ(checkpoint_item(c, 1), alone);  // master precision, whatever is computed in
  c.numerics.compute_type = ElementType::fp64;
  EXPECT_EQ(checkpoint_item(c, 1), 2 * alone);
  c.numerics.compute_type = ElementType::fp32;
  for (const int64_t stage : {0, 1, 3}) {
    c.grid.zero_stage = stage;
    EXPECT_NEAR(static_cast<double>(checkpoint_item(c, 4)), static_cast<double>(alone) / 4,
                0.05 * static_cast<double>(alone))
        << stage;
  }
  c.grid.zero_shards = 2;  // two groups of two
  EXPECT_EQ(make_blueprint(c, 4).zero_replicas, 2);
  EXPECT_NEAR(static_cast<double>(checkpoint_item(c, 4)), static_cast<double>(alone) / 4,
              0.05 * static_cast<double>(alone));
}

// What the reducers and the pipeline hold is compared with the real ones where they are tested.
TEST(MemoryBill, ForetellsTheBuffersOfCommunication) {
  Config c = gpt2_like();
  c.batch.global_batch_size = 16;
  const auto buffers = [&](int64_t ranks) {
    return bytes_of(make_memory_bill(make_heaviest_blueprint(c, ranks), {}),
                    "communication buffers");
  };
  EXPECT_EQ(buffers(1), 0);
  const Blueprint four = make_blueprint(c, 4);
  // A bucket in each lane, without what a rank owns of it itself.
  const LargestSizes sizes = largest_bucket(four.partition);
  EXPECT_EQ(buffers(4), reducer_lanes(four.partition) * 4 * 3 * sizes.owned);
  const int64_t fp32 = buffers(4);
  c.numerics.gradient_reduce_type = ElementType::bf16;  // half of it, and what is sent
  EXPECT_GT(buffers(4), fp32 / 2);
  c.numerics.gradient_reduce_type = ElementType::fp32;
  c.grid.zero_stage = 2;
  const Blueprint sharded = make_blueprint(c, 4);
  EXPECT_GT(buffers(4), kScratch * 4 * largest_block(sharded.partition).whole);
  c.grid.zero_stage = 0;
  c.grid.data_parallel = 1;
  c.grid.pipeline_parallel = 2;
  EXPECT_EQ(buffers(2), communication_buffer_bytes(make_heaviest_blueprint(c, 2)));
  EXPECT_GT(buffers(2), 0);
}

TEST(MemoryBill, MessagesOfADeviceLieInPinnedMemory) {
  Config c = gpt2_like();
  c.batch.global_batch_size = 16;
  MemoryAssumptions device;
  device.computes_in = MemorySpace::device;
  const auto staging = [&](int64_t ranks, const MemoryAssumptions& assumptions) {
    return bytes_of(make_memory_bill(make_blueprint(c, ranks), assumptions), "message staging");
  };
  EXPECT_EQ(staging(1, device), 0);
  c.grid.zero_stage = 1;
  c.grid.zero_shards = 2;  // both kinds of sums: over shards, then over replicas
  const int64_t both = staging(4, device);
  c.grid.zero_shards = 0;
  EXPECT_GT(both, staging(2, device));
  EXPECT_EQ(staging(4, {}), 0);
  EXPECT_GT(staging(4, device), 0);
  for (const MemoryItem& item : make_memory_bill(make_blueprint(c, 4), device).items) {
    if (item.name == "message staging") {
      EXPECT_EQ(item.space, MemorySpace::host);
    }
  }
}

MemoryAssumptions on_a_device() {
  MemoryAssumptions assumptions;
  assumptions.computes_in = MemorySpace::device;
  assumptions.device_runtime_bytes = 700;
  return assumptions;
}

TEST(MemoryBill, OfADeviceIsSplitByMemory) {
  Config c = gpt2_like();
  c.numerics.compute_type = ElementType::bf16;
  c.checkpoint.interval = 10;
  const Blueprint b = make_blueprint(c, 1);
  const MemoryBill there = make_memory_bill(b, on_a_device()), here = make_memory_bill(b, {});
  EXPECT_EQ(here.total(MemorySpace::device), 0);
  EXPECT_EQ(here.total(MemorySpace::host), here.total());
  EXPECT_EQ(bytes_of(there, "context and libraries"), 700);
  EXPECT_GT(bytes_of(here, "widened products"), 0);
  EXPECT_EQ(bytes_of(there, "widened products"), 0);
  for (const MemoryItem& item : there.items) {
    const bool on_host = item.name == "checkpoint" || item.name == "prefetched batches" ||
                         item.name == "program and libraries";
    EXPECT_EQ(item.space, on_host ? MemorySpace::host : MemorySpace::device) << item.name;
    if (item.name == "context and libraries") continue;
    EXPECT_EQ(item.bytes, bytes_of(here, item.name)) << item.name;
  }
  EXPECT_EQ(there.total(MemorySpace::device) + there.total(MemorySpace::host), there.total());
}

TEST(DeviceRoom, ABillThatDoesNotFitIsRefusedWithItsItems) {
  Config c = gpt2_like();
  c.batch.micro_batch_size = c.batch.global_batch_size = 4;
  const MemoryBill bill = make_memory_bill(make_blueprint(c, 1), on_a_device());
  const int64_t needed = bill.total(MemorySpace::device) - 700;  // the context is there already
  const int64_t total = int64_t{1} << 40;
  EXPECT_EQ(why_too_large(bill, {needed, total, 1}, c), "");
  const std::string why = why_too_large(bill, {needed - 1, total, 1}, c);
  for (const char* part : {"of 1.00 TiB are free", "lower batch.micro_batch_size = 4",
                           "grid.recompute = \"selective\"", "raise grid.zero_stage = 0",
                           "optimizer state", "activations", "(taken already)"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
  EXPECT_EQ(why.find("program and libraries"), std::string::npos);
  // Ranks that share a device need it each.
  EXPECT_EQ(why_too_large(bill, {3 * needed, total, 3}, c), "");
  const std::string shared = why_too_large(bill, {3 * needed - 1, total, 3}, c);
  for (const char* part : {"each of the 3 ranks", "let fewer ranks share it"})
    EXPECT_NE(shared.find(part), std::string::npos) << part << " in " << shared;
  EXPECT_EQ(why.find("share it"), std::string::npos);
  EXPECT_EQ(why.find("logits_mib"), std::string::npos) << "2 MiB of logits";
  c.model.vocab_size = 1 << 18;
  const MemoryBill wide = make_memory_bill(make_blueprint(c, 1), on_a_device());
  EXPECT_NE(why_too_large(wide, {needed, total, 1}, c).find("lower numerics.logits_mib = 512"),
            std::string::npos);
}

TEST(DeviceRoom, NamesOnlyWhatTheDeckLeavesToChange) {
  Config c = gpt2_like();
  c.batch.micro_batch_size = 1;
  c.grid.recompute = Recompute::full;
  c.grid.zero_stage = 3;
  const MemoryBill bill = make_memory_bill(make_blueprint(c, 1), on_a_device());
  const std::string why = why_too_large(bill, {0, 0, 1}, c);
  for (const char* part : {"micro_batch_size", "recompute", "zero_stage"})
    EXPECT_EQ(why.find(part), std::string::npos) << part << " in " << why;
  EXPECT_NE(why.find("tensor_parallel"), std::string::npos);
}

TEST(MemoryBill, TheReproducibleModeKeepsPartialSums) {
  Config c = gpt2_like();
  EXPECT_EQ(reproducible_levels(make_blueprint(c, 1)), 0);
  c.numerics.reproducible = true;
  EXPECT_EQ(reproducible_levels(make_blueprint(c, 1)), 3);  // eight micro-batches
  EXPECT_EQ(reproducible_levels(make_blueprint(c, 4)), 1);
  c.batch.global_batch_size = 24;
  EXPECT_EQ(reproducible_levels(make_blueprint(c, 1)), 1);  // six
  const Blueprint b = make_blueprint(c, 1);
  EXPECT_EQ(bytes_of(make_memory_bill(b, {}), "gradients"), 2 * 4 * b.parameters.flat_size);
}

}  // namespace
}  // namespace espalier
