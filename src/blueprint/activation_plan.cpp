// SPDX-License-Identifier: Apache-2.0
#include "blueprint/activation_plan.hpp"

#include <algorithm>

#include "blueprint/model_widths.hpp"

namespace espalier {
namespace {

// Tokens whose logits exist at once: even portions that numerics.logits_mib holds, in whole tiles
// of the products where it holds one. Follows from the deck alone, not from the rank's share of the
// vocabulary: the rows of a product are part of the arithmetic.
int64_t classifier_rows(const Config& config, int64_t tokens) {
  constexpr int64_t kTile = 128;
  const double bytes_of_token =
      static_cast<double>(element_bytes(config.numerics.compute_type) * config.model.vocab_size);
  const double fit = config.numerics.logits_mib * 1048576.0 / bytes_of_token;
  if (fit >= static_cast<double>(tokens)) return tokens;
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(fit));
  const auto even = [tokens](int64_t rows) {
    const int64_t portions = (tokens + rows - 1) / rows;
    return (tokens + portions - 1) / portions;
  };
  if (most < kTile) return even(most);
  const int64_t rows = even(most / kTile * kTile);
  return std::min(tokens, (rows + kTile - 1) / kTile * kTile);
}

class Planner {
 public:
  Planner(const Config& config, const TensorSplit& split)
      : config_(config), m_(config.model), split_(split), keys_(m_.num_kv_heads, split.shards) {
    tokens_ = config.batch.micro_batch_size * config.batch.seq_length;
    own_ = split.tokens(tokens_);
    heads_ = split.local(m_.num_heads).count;
    kv_heads_ = keys_.local(split).count;
    inner_ = split.local(m_.intermediate_size).count;
    up_ = m_.activation == Activation::swiglu ? 2 * inner_ : inner_;
    query_ = heads_ * m_.head_dim;
    qkv_ = query_ + 2 * kv_heads_ * m_.head_dim;
  }

  ActivationPlan make() {
    plan_.tokens = tokens_;
    plan_.own_tokens = own_;
    plan_.classifier_rows = classifier_rows(config_, tokens_);
    plan_.input = {{"inputs", 1, tokens_, Storage::index},
                   {"targets", 1, tokens_, Storage::index},
                   {"positions", 1, tokens_, Storage::index},
                   {"document_start", 1, tokens_, Storage::index},
                   {"token_index", 1, tokens_, Storage::wide_index},
                   {"first_token", 1, config_.batch.micro_batch_size, Storage::wide_index}};
    plan_block(plan_.plain, Recompute::none);
    plan_block(plan_.recomputed, config_.grid.recompute);
    plan_.split = {{"d_qkv", tokens_, qkv_},
                   {"d_up", tokens_, up_},
                   {"attention.d_output", own_.count, m_.hidden_size},
                   {"mlp.d_output", own_.count, m_.hidden_size},
                   {"norm.gradients", 1, norm_widths(m_).total(), Storage::accumulate}};
    plan_.head = {{"final.input", own_.count, m_.hidden_size},
                  {"final_norm.statistics", own_.count, 2, Storage::accumulate},
                  {"final.normed", own_.count, m_.hidden_size}};
    plan_workspace();
    return std::move(plan_);
  }

 private:
  // `level`: the strongest recomputation under which the tensor is still kept.
  void plan_block(BlockPlan& block, Recompute mode) const {
    const auto add = [&](Recompute level, const char* name, int64_t rows, int64_t columns,
                         Storage storage = Storage::compute) {
      auto& list = mode <= level ? block.kept : block.recomputed;
      list.push_back({name, rows, columns, storage});
    };
    const int64_t hidden = m_.hidden_size, own = own_.count;
    const Recompute always = Recompute::full, cheap = Recompute::none;
    const Recompute products = Recompute::selective;
    add(always, "input", own, hidden);
    add(products, "attention.norm.statistics", own, 2, Storage::accumulate);
    add(cheap, "attention.normed", own, hidden);
    if (m_.qk_norm) {
      add(products, "attention.qkv_raw", tokens_, qkv_);
      add(products, "attention.qk_norm.statistics", tokens_, 2 * (heads_ + kv_heads_),
          Storage::accumulate);
    }
    add(m_.qk_norm ? cheap : products, "attention.qkv", tokens_, qkv_);
    add(cheap, "attention.heads", tokens_, query_);
    add(cheap, "attention.log_sum", tokens_, heads_, Storage::accumulate);
    if (m_.residual == Residual::sequential) {
      add(products, "mlp.input", own, hidden);
      add(products, "mlp.norm.statistics", own, 2, Storage::accumulate);
      add(cheap, "mlp.normed", own, hidden);
    }
    add(products, "mlp.up", tokens_, up_);
    add(cheap, "mlp.activated", tokens_, inner_);
  }

  void plan_workspace() {
    const int64_t hidden = m_.hidden_size, own = own_.count;
    const int64_t vocab = split_.local(m_.vocab_size).count, rows = plan_.classifier_rows;
    const int64_t widest_norm = std::max(hidden, m_.head_dim);
    const int64_t norm_rows = m_.qk_norm ? tokens_ * heads_ : own;
    const auto add = [&](const char* name, int64_t r, int64_t c,
                         Storage storage = Storage::compute) {
      plan_.workspace.push_back({name, r, c, storage});  // also where a rank's slice is empty
    };
    add("logits", rows, std::max<int64_t>(vocab, 1));
    add("losses", 1, tokens_, Storage::accumulate);
    add("delta", own, hidden);
    add("norm.partials", (norm_rows + kNormChunk - 1) / kNormChunk, 2 * widest_norm,
        Storage::accumulate);
    add("norm.slices", split_.shards, 2 * std::max(hidden, 2 * m_.head_dim), Storage::accumulate);
    add("norm.result", 1, std::max(norm_widths(m_).total(), 2 * hidden), Storage::accumulate);
    // On a device what attention_scratch() of cuda/attention.hpp says.
    const int64_t length = config_.batch.seq_length;
    add("attention.scratch", 1,
        std::max(attention_scratch(length, m_.head_dim),
                 tokens_ / length * ((length + 127) / 128 * 128) * (2 * heads_ + 1)),
        Storage::accumulate);
    if (m_.bias)
      add("bias.partials", kBiasPartials, std::max({qkv_, up_, hidden}), Storage::accumulate);
    add("d_stream", own, hidden);
    add("d_normed", own, hidden);
    add("final.gradient", own, hidden);
    add("d_qkv", tokens_, qkv_);
    add("d_heads", tokens_, query_);
    add("d_up", tokens_, up_);
    add("d_activated", tokens_, inner_);
    if (m_.residual_dropout > 0) add("d_delta", own, hidden);
    const bool exact = config_.numerics.reproducible;
    if (split_.shards > 1) {
      // Sums over shards; the first is also what crosses ranks.
      add("partial", tree_slots(split_.local_shards()) * tokens_, hidden,
          exact ? Storage::accumulate : Storage::compute);
      add("shard.statistics", split_.shards * rows, 3, Storage::accumulate);
      add("shard.log_terms", rows, 2, Storage::accumulate);
    }
    if (split_.ranks > 1) {
      const int64_t slice = cut_evenly(tokens_, split_.ranks, 0).count +
                            (tokens_ + split_.shards - 1) / split_.shards;
      add("received", (split_.ranks - 1) * slice, hidden,
          exact ? Storage::accumulate : Storage::compute);
    }
    if (split_.sequence) {
      add("gathered", tokens_, hidden);
      add("d_gathered", tokens_, hidden);
    }
    if (keys_.sharers > 1)
      add("key_partials", keys_.sharers * tokens_, 2 * m_.head_dim * keys_.per_shard);
  }

  const Config& config_;
  const ModelConfig& m_;
  const TensorSplit& split_;
  const KeyValueSplit keys_;
  Range own_;
  int64_t tokens_, heads_, kv_heads_, inner_, up_, query_, qkv_;
  ActivationPlan plan_;
};

}  // namespace

int64_t attention_scratch(int64_t seq_length, int64_t head_dim) {
  // Two tiles of scores, one of outputs, panels of q, k, v, d_o, d_k, d_v, d_q of one head, and one
  // number a query.
  return 2 * kQueryTile * kKeyTile + kQueryTile * head_dim + 7 * seq_length * head_dim + seq_length;
}

int tree_slots(int64_t leaves) {
  int slots = 1;
  for (; leaves > 1; leaves = (leaves + 1) / 2) ++slots;
  return slots;
}

NormWidths norm_widths(const ModelConfig& m) {
  const int64_t vectors = m.norm == NormKind::layernorm && m.norm_bias ? 2 : 1;
  const int64_t norms = m.residual == Residual::sequential ? 2 : 1;
  return {vectors * norms * m.hidden_size, m.qk_norm ? vectors * 2 * m.head_dim : 0};
}

bool is_recomputed(const GridConfig& grid, int64_t layer) {
  return grid.recompute != Recompute::none && layer % grid.recompute_interval == 0;
}

ActivationPlan make_activation_plan(const Config& config, const TensorSplit& split) {
  return Planner(config, split).make();
}

int64_t planned_bytes(const PlannedTensor& tensor, ElementType compute_type) {
  int64_t width = 4;
  if (tensor.storage == Storage::compute) width = element_bytes(compute_type);
  if (tensor.storage == Storage::wide_index) width = 8;
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
