// SPDX-License-Identifier: Apache-2.0
#include "blueprint/blueprint.hpp"

#include <algorithm>
#include <cmath>

#include "blueprint/model_widths.hpp"
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

Blueprint make_blueprint(const Config& config, int64_t ranks) {
  Blueprint b;
  b.config = config;
  if (b.config.grid.data_parallel == 0) {
    const GridConfig& g = config.grid;
    b.config.grid.data_parallel = std::max<int64_t>(
        1, ranks / (g.tensor_parallel * g.pipeline_parallel * g.context_parallel));
  }
  b.data_parallel = b.config.grid.data_parallel;
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
  b.tokens_per_step = batch.global_batch_size * batch.seq_length;
  b.parameters = make_parameter_table(b.config);
  b.activations = make_activation_plan(b.config);
  add_operators(b);
  return b;
}

}  // namespace espalier
