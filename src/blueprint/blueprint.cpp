// SPDX-License-Identifier: Apache-2.0
#include "blueprint/blueprint.hpp"

#include <algorithm>
#include <cmath>

#include "blueprint/model_widths.hpp"
#include "blueprint/stage_layout.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

void add_matmul(Blueprint& b, const std::string& name, int64_t out, int64_t in) {
  b.operators.push_back({name, Part::matmul, 2 * out * in, 4 * out * in});
}

void add_operators(Blueprint& b) {
  const ModelConfig& m = b.config.model;
  const int64_t query = query_width(m);
  // A query sees (seq_length + 1) / 2 keys in the mean; scores and values cost 2 flop a channel
  // each, the backward pass twice as much.
  const int64_t attention = 2 * query * (b.config.batch.seq_length + 1);
  for (int64_t layer = 0; layer < m.num_layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    add_matmul(b, prefix + ".attention.qkv", qkv_width(m), m.hidden_size);
    b.operators.push_back({prefix + ".attention", Part::attention, attention, 2 * attention});
    add_matmul(b, prefix + ".attention.output", m.hidden_size, query);
    add_matmul(b, prefix + ".mlp.up", up_width(m), m.hidden_size);
    add_matmul(b, prefix + ".mlp.down", m.hidden_size, m.intermediate_size);
  }
  add_matmul(b, "output", m.vocab_size, m.hidden_size);
  for (const auto& op : b.operators) {
    const int64_t flops = op.forward_flops_per_token + op.backward_flops_per_token;
    (op.part == Part::attention ? b.attention_flops_per_token : b.matmul_flops_per_token) += flops;
  }
}

}  // namespace

const char* part_name(Part part) {
  static const char* const names[kPartCount] = {"matmul", "attention", "norm",      "activation",
                                                "loss",   "embedding", "optimizer", "communication",
                                                "data",   "other"};
  return names[static_cast<int>(part)];
}

int64_t MemoryBill::total() const {
  int64_t sum = 0;
  for (const auto& item : items) sum += item.bytes;
  return sum;
}

int64_t MemoryBill::total(MemorySpace space) const {
  int64_t sum = 0;
  for (const MemoryItem& item : items)
    if (item.space == space) sum += item.bytes;
  return sum;
}

namespace {

TensorSplit make_split(const Config& config, int64_t rank) {
  TensorSplit split;
  split.ranks = config.grid.tensor_parallel;
  split.rank = rank;
  split.shards = config.numerics.reproducible
                     ? std::max<int64_t>(1, config.numerics.virtual_tensor_parallel)
                     : config.grid.tensor_parallel;
  if (split.shards % split.ranks != 0) split.shards = split.ranks;
  split.sequence = config.grid.sequence_parallel && split.ranks > 1;
  return split;
}

// Stages 2 and 3 add over the ranks of a shard group after every micro-batch, so neighbours in the
// sum's tree stand on neighbouring ranks there; otherwise on the same rank.
MicroBatchSet own_micro_batches(const Blueprint& b) {
  const int64_t count = b.micro_batches;
  if (b.config.grid.zero_stage < 2) return {b.rank.data * count, count, 1};
  const int64_t replica = b.rank.data / b.zero_shards;
  return {replica * count * b.zero_shards + b.own_shard(), count, b.zero_shards};
}

void add_chunks(Blueprint& b) {
  const GridConfig& grid = b.config.grid;
  b.schedule = make_schedule(grid.pipeline_schedule, grid.pipeline_parallel, grid.virtual_stages,
                             b.micro_batches);
  for (int64_t chunk = 0; chunk < grid.virtual_stages; ++chunk) {
    ChunkPlan plan;
    plan.stage = b.schedule.stage(b.rank.pipeline, chunk);
    plan.layers = b.place.stages[static_cast<size_t>(plan.stage)];
    plan.is_first = plan.stage == 0;
    plan.is_last = plan.stage + 1 == b.schedule.stages();
    plan.slots = slots(b.schedule, b.rank.pipeline, chunk);
    b.chunks.push_back(plan);
  }
}

void add_partition(Blueprint& b) {
  const GridConfig& grid = b.config.grid;
  const int64_t width = b.config.numerics.compute_type == ElementType::fp64 ? 8 : 4;
  const auto elements =
      std::max<int64_t>(1, static_cast<int64_t>(grid.bucket_mib * 1024.0 * 1024.0) / width);
  b.partition = make_partition(b.parameters, b.zero_shards, elements,
                               grid.zero_stage < 2 ? BucketJoin::yes : BucketJoin::no);
  b.owned = grid.zero_stage == 0 ? own_everything(b.parameters.flat_size)
                                 : b.partition.owned_by(b.own_shard());
}

}  // namespace

Blueprint make_blueprint(const Config& config, int64_t ranks, const RankPlace& rank) {
  Blueprint b;
  b.config = config;
  b.rank = rank;
  GridConfig& g = b.config.grid;
  if (g.data_parallel == 0)
    g.data_parallel = std::max<int64_t>(
        1, ranks / (g.tensor_parallel * g.pipeline_parallel * g.context_parallel));
  // A rank alone shares nothing; stages 2 and 3 would only add its gradients in another order.
  if (g.data_parallel == 1) g.zero_stage = 0;
  g.virtual_stages = std::max<int64_t>(1, g.virtual_stages);
  b.data_parallel = g.data_parallel;
  b.zero_shards = g.zero_stage > 0 && g.zero_shards > 0 ? g.zero_shards : g.data_parallel;
  b.zero_replicas = g.data_parallel / b.zero_shards;
  const BatchConfig& batch = config.batch;
  const int64_t per_pass = batch.micro_batch_size * b.data_parallel;
  if (per_pass <= 0 || batch.global_batch_size % per_pass != 0)
    throw DeckError(fmt::format(
        "batch.global_batch_size = {} (not a multiple of micro_batch_size * data_parallel = {} * "
        "{}); try {} or other numbers of ranks",
        batch.global_batch_size, batch.micro_batch_size, b.data_parallel,
        (batch.global_batch_size / per_pass + 1) * per_pass));
  b.total_micro_batches = batch.global_batch_size / batch.micro_batch_size;
  b.micro_batches = b.total_micro_batches / b.data_parallel;
  b.own_micro_batches = own_micro_batches(b);
  b.tokens_per_step = batch.global_batch_size * batch.seq_length;
  b.place.split = make_split(b.config, rank.tensor);
  b.place.stages = stage_ranges(b.config);
  b.place.pipeline_ranks = g.pipeline_parallel;
  b.place.pipeline_rank = rank.pipeline;
  b.parameters = make_parameter_table(b.config, b.place);
  b.activations = make_activation_plan(b.config, b.place.split);
  add_chunks(b);
  add_partition(b);
  add_operators(b);
  return b;
}

int64_t Blueprint::held_layers() const {
  int64_t sum = 0;
  for (const ChunkPlan& c : chunks) sum += c.layers.last - c.layers.first;
  return sum;
}

bool splits_backward(const GridConfig& grid) {
  return grid.pipeline_schedule == PipelineSchedule::zero_bubble && grid.pipeline_parallel > 1;
}

int64_t activation_bytes(const Blueprint& b) {
  const ActivationPlan& plan = b.activations;
  const ElementType type = b.config.numerics.compute_type;
  const GridConfig& grid = b.config.grid;
  int64_t bytes = planned_bytes(plan.workspace, type);
  if (grid.recompute != Recompute::none) bytes += planned_bytes(plan.recomputed.recomputed, type);
  for (const ChunkPlan& chunk : b.chunks) {
    int64_t slot = planned_bytes(plan.input, type);
    if (chunk.is_last) slot += planned_bytes(plan.head, type);
    for (int64_t layer = chunk.layers.first; layer < chunk.layers.last; ++layer) {
      const BlockPlan& block = is_recomputed(grid, layer) ? plan.recomputed : plan.plain;
      slot += planned_bytes(block.kept, type);
      if (splits_backward(grid)) slot += planned_bytes(plan.split, type);
    }
    bytes += chunk.slots * slot;
  }
  return bytes;
}

Blueprint make_heaviest_blueprint(const Config& config, int64_t ranks) {
  Blueprint heaviest;
  int64_t most = -1;
  for (int64_t stage = 0; stage < config.grid.pipeline_parallel; ++stage) {
    Blueprint b = make_blueprint(config, ranks, {stage, 0, 0});
    const int64_t bytes = make_memory_bill(b, {}).total();
    if (bytes <= most) continue;
    most = bytes;
    heaviest = std::move(b);
  }
  return heaviest;
}

}  // namespace espalier
