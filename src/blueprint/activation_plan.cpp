// SPDX-License-Identifier: Apache-2.0
#include "blueprint/activation_plan.hpp"

#include <algorithm>

#include "blueprint/model_widths.hpp"

namespace espalier {
namespace {

// Logits of this many bytes at a time: large enough that the products run at full speed, small
// enough that the vocabulary never decides the memory of a run.
constexpr int64_t kLogitBytes = int64_t{96} << 20;

int64_t classifier_rows(int64_t tokens, int64_t vocab_size) {
  const int64_t fit = kLogitBytes / (4 * vocab_size) / 64 * 64;
  return std::min(tokens, std::max<int64_t>(64, fit));
}

}  // namespace

int64_t attention_scratch(int64_t seq_length, int64_t head_dim) {
  // Two tiles of scores, one of outputs, panels of q, k, v, d_o, d_k, d_v, d_q of one head, and one
  // number a query.
  return 2 * kQueryTile * kKeyTile + kQueryTile * head_dim + 7 * seq_length * head_dim + seq_length;
}

ActivationPlan make_activation_plan(const Config& config) {
  const ModelConfig& m = config.model;
  const int64_t tokens = config.batch.micro_batch_size * config.batch.seq_length;
  const int64_t hidden = m.hidden_size;
  const int64_t query = query_width(m);
  const int64_t qkv = qkv_width(m);
  const int64_t up = up_width(m);
  const bool sequential = m.residual == Residual::sequential;
  ActivationPlan plan;
  plan.classifier_rows = classifier_rows(tokens, m.vocab_size);
  plan.input = {{"inputs", 1, tokens, Storage::index},
                {"targets", 1, tokens, Storage::index},
                {"positions", 1, tokens, Storage::index},
                {"document_start", 1, tokens, Storage::index}};

  plan.block = {{"input", tokens, hidden, Storage::compute},
                {"attention.norm.statistics", tokens, 2, Storage::accumulate},
                {"attention.normed", tokens, hidden, Storage::compute}};
  if (m.qk_norm) {
    plan.block.push_back({"attention.qkv_raw", tokens, qkv, Storage::compute});
    plan.block.push_back({"attention.qk_norm.statistics", tokens,
                          2 * (m.num_heads + m.num_kv_heads), Storage::accumulate});
  }
  plan.block.push_back({"attention.qkv", tokens, qkv, Storage::compute});
  plan.block.push_back({"attention.heads", tokens, query, Storage::compute});
  plan.block.push_back({"attention.log_sum", tokens, m.num_heads, Storage::accumulate});
  if (sequential) {
    plan.block.push_back({"mlp.input", tokens, hidden, Storage::compute});
    plan.block.push_back({"mlp.norm.statistics", tokens, 2, Storage::accumulate});
    plan.block.push_back({"mlp.normed", tokens, hidden, Storage::compute});
  }
  plan.block.push_back({"mlp.up", tokens, up, Storage::compute});
  plan.block.push_back({"mlp.activated", tokens, m.intermediate_size, Storage::compute});

  plan.head = {{"final.input", tokens, hidden, Storage::compute},
               {"final_norm.statistics", tokens, 2, Storage::accumulate},
               {"final.normed", tokens, hidden, Storage::compute},
               {"final.gradient", tokens, hidden, Storage::compute},
               {"losses", 1, tokens, Storage::accumulate}};

  // Scratch sizes are the layers' own: layers/attention.hpp and layers/norm.hpp check them.
  const int64_t widest_norm = std::max(hidden, m.head_dim);
  const int64_t norm_rows = m.qk_norm ? tokens * m.num_heads : tokens;
  plan.workspace = {{"logits", plan.classifier_rows, m.vocab_size, Storage::compute},
                    {"delta", tokens, hidden, Storage::compute},
                    {"norm.partials", (norm_rows + kNormChunk - 1) / kNormChunk, 2 * widest_norm,
                     Storage::accumulate},
                    {"attention.scratch", 1, attention_scratch(config.batch.seq_length, m.head_dim),
                     Storage::accumulate},
                    {"d_stream", tokens, hidden, Storage::compute},
                    {"d_normed", tokens, hidden, Storage::compute},
                    {"d_qkv", tokens, qkv, Storage::compute},
                    {"d_heads", tokens, query, Storage::compute},
                    {"d_up", tokens, up, Storage::compute},
                    {"d_activated", tokens, m.intermediate_size, Storage::compute}};
  return plan;
}

int64_t planned_bytes(const PlannedTensor& tensor, ElementType compute_type) {
  int64_t width = 4;
  if (tensor.storage == Storage::compute) width = element_bytes(compute_type);
  if (tensor.storage == Storage::accumulate && compute_type == ElementType::fp64) width = 8;
  const int64_t bytes = tensor.rows * tensor.columns * width;
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

int64_t planned_bytes(const std::vector<PlannedTensor>& tensors, ElementType compute_type) {
  int64_t sum = 0;
  for (const auto& t : tensors) sum += planned_bytes(t, compute_type);
  return sum;
}

}  // namespace espalier
