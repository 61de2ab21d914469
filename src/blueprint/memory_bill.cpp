// SPDX-License-Identifier: Apache-2.0
// The memory bill: what one rank will hold, item by item. The engine allocates from the same plan,
// and a run prints the measured peak beside the total.
#include <algorithm>

#include "blueprint/blueprint.hpp"
#include "blueprint/communication_buffers.hpp"
#include "blueprint/model_widths.hpp"

namespace espalier {
namespace {

int64_t widened_products(const Blueprint& b) {
  const ModelConfig& m = b.config.model;
  const TensorSplit& split = b.place.split;
  const int64_t tokens = b.config.batch.micro_batch_size * b.config.batch.seq_length;
  // gemm widens both operands, and the result where it is 16-bit: the largest product of each slot.
  int64_t slot[3] = {0, 0, 0};
  const auto product = [&](int64_t rows, int64_t out, int64_t in) {
    slot[0] = std::max({slot[0], rows * in, rows * out});
    slot[1] = std::max({slot[1], out * in, rows * in});
    slot[2] = std::max({slot[2], rows * out, rows * in});
  };
  // Shards are multiplied one by one in the reproducible mode, runs of a rank's share otherwise.
  const int64_t parts = split.shards;
  const auto part = [&](int64_t count) { return cut_evenly(count, parts, 0).count; };
  product(tokens, part(qkv_width(m)), m.hidden_size);
  product(tokens, m.hidden_size, part(query_width(m)));
  product(tokens, part(up_width(m)), m.hidden_size);
  product(tokens, m.hidden_size, part(m.intermediate_size));
  product(b.activations.classifier_rows, part(m.vocab_size), m.hidden_size);
  return 4 * (slot[0] + slot[1] + slot[2]);
}

}  // namespace

int tree_levels(int64_t micro_batches) {
  int levels = 0;
  for (; micro_batches > 0 && micro_batches % 2 == 0; micro_batches /= 2) ++levels;
  return levels;
}

int reproducible_levels(const Blueprint& b) {
  return b.config.numerics.reproducible ? tree_levels(b.micro_batches) : 0;
}

int64_t gathered_elements(const ParameterTable& table) {
  int64_t layer = 0, table_size = 0, small = 0;
  for (const BlockSpan& block : table.blocks) {
    if (block.kind == BlockKind::layer)
      layer = std::max(layer, block.size);
    else if (block.kind == BlockKind::token || block.kind == BlockKind::output)
      table_size = std::max(table_size, block.size);
    else
      small += block.size;
  }
  return kGatheredLayers * layer + table_size + small;
}

ElementType master_type(const Config& config) {
  const NumericsConfig& n = config.numerics;
  return n.compute_type == ElementType::fp64 ? ElementType::fp64 : n.master_type;
}

int64_t master_bytes(const Config& config) {
  return element_bytes(master_type(config));
}

int64_t moment_bytes(const Config& config) {
  return config.numerics.compute_type == ElementType::fp64 ? 8 : 4;
}

int64_t state_bytes(const Config& config) {
  return master_bytes(config) + 2 * moment_bytes(config);
}

bool saves_while_running(const CheckpointConfig& checkpoint) {
  return checkpoint.interval > 0 || checkpoint.interval_rule == IntervalRule::young_daly;
}

bool saves_beside_training(const CheckpointConfig& checkpoint) {
  return checkpoint.mode == SaveMode::asynchronous && saves_while_running(checkpoint);
}

int64_t snapshot_bytes(const Blueprint& b) {
  const int64_t own = b.partition.largest_compact_size();
  return state_bytes(b.config) * ((own + b.zero_replicas - 1) / b.zero_replicas);
}

int64_t checkpoint_bytes(const Blueprint& b) {
  return state_bytes(b.config) * b.parameters.parameter_count;
}

MemoryBill make_memory_bill(const Blueprint& b, const MemoryAssumptions& assumptions) {
  const ElementType type = b.config.numerics.compute_type;
  const int64_t master = master_bytes(b.config), moment = moment_bytes(b.config);
  const int64_t compute = element_bytes(type);
  const int64_t all = b.parameters.flat_size, stage = b.config.grid.zero_stage;
  const int64_t own = stage == 0 ? all : b.partition.largest_compact_size();
  const bool is_separate = compute != master;
  MemoryBill bill;
  const MemorySpace there = assumptions.computes_in;
  const auto add_in = [&](MemorySpace space, const char* name, int64_t bytes) {
    if (bytes > 0) bill.items.push_back({name, bytes, space});
  };
  const auto add = [&](const char* name, int64_t bytes) { add_in(there, name, bytes); };
  add("parameters (master)", (stage == 3 || (stage > 0 && is_separate) ? own : all) * master);
  if (is_separate) add("parameters (compute copy)", (stage == 3 ? own : all) * compute);
  if (stage == 3) add("parameters (gathered)", gathered_elements(b.parameters) * compute);
  add("gradients", (stage >= 2 ? own : all) * moment * (1 + reproducible_levels(b)));
  add("optimizer state", assumptions.optimizer == OptimizerState::allocated ? 2 * own * moment : 0);
  if (assumptions.optimizer == OptimizerState::allocated &&
      saves_beside_training(b.config.checkpoint))
    add_in(MemorySpace::host, "checkpoint", snapshot_bytes(b));
  const int64_t workspace = planned_bytes(b.activations.workspace, type);
  add("activations", activation_bytes(b) - workspace);
  add("workspace", workspace);
  if (b.config.model.position == PositionKind::rope)
    add("rotary table", b.config.batch.seq_length * b.config.model.head_dim * moment);
  if (element_bytes(type) == 2 && there == MemorySpace::host)
    add("widened products", widened_products(b));
  const int64_t batches = b.config.data.prefetch_steps + 1;
  add_in(MemorySpace::host, "prefetched batches",
         batches * b.micro_batches * b.config.batch.micro_batch_size *
             (b.config.batch.seq_length * 4 * 4 + 8));
  add("communication buffers", communication_buffer_bytes(b));
  if (there == MemorySpace::device) {
    add_in(MemorySpace::host, "message staging", message_staging_bytes(b));
    add(kDeviceRuntimeItem, assumptions.device_runtime_bytes);
  }
  add_in(MemorySpace::host, "program and libraries", assumptions.runtime_bytes);
  return bill;
}

}  // namespace espalier
