// SPDX-License-Identifier: Apache-2.0
// Warnings about keys that the deck writes although the chosen options leave them no effect.
#include <fmt/format.h>

#include "deck/draft.hpp"
#include "deck/mixture_text.hpp"

namespace espalier {
namespace {

/// `key` has no effect while `is_idle`, because of the value of `cause`.
struct Idle {
  const char* key;
  const char* cause;
  bool is_idle;
};

std::vector<Idle> model_rules(const Config& c) {
  const ModelConfig& m = c.model;
  const bool no_rope = m.position != PositionKind::rope;
  const bool no_scaling = !no_rope && m.rope_scaling == RopeScaling::none;
  const bool not_llama3 = !no_rope && m.rope_scaling != RopeScaling::llama3;
  const bool scales_by_one =
      !no_rope && m.rope_scaling != RopeScaling::none && m.rope_scaling_factor == 1.0;
  return {{"model.norm_bias", "model.norm", m.norm == NormKind::rmsnorm},
          {"model.rope_theta", "model.position", no_rope},
          {"model.rope_style", "model.position", no_rope},
          {"model.rope_scaling", "model.position", no_rope},
          {"model.rope_scaling_factor", "model.position", no_rope},
          {"model.rope_low_freq_factor", "model.position", no_rope},
          {"model.rope_high_freq_factor", "model.position", no_rope},
          {"model.rope_original_length", "model.position", no_rope},
          {"model.rope_scaling", "model.rope_scaling_factor", scales_by_one},
          {"model.rope_scaling_factor", "model.rope_scaling", no_scaling},
          {"model.rope_low_freq_factor", "model.rope_scaling", not_llama3},
          {"model.rope_high_freq_factor", "model.rope_scaling", not_llama3},
          {"model.rope_original_length", "model.rope_scaling", not_llama3},
          {"data.reset_positions", "model.position", m.position == PositionKind::none}};
}

std::vector<Idle> training_rules(const Config& c) {
  const bool no_decay = c.optimizer.weight_decay == 0.0;
  const bool no_wsd = c.schedule.decay != DecayKind::wsd;
  const bool no_scale = c.numerics.compute_type != ElementType::fp16;
  const bool random = c.data.source == DataSource::random;
  const bool no_validation = c.monitor.validation_interval == 0;
  return {
      {"grid.sequence_parallel", "grid.tensor_parallel",
       c.grid.sequence_parallel && c.grid.tensor_parallel == 1},
      {"grid.pipeline_schedule", "grid.pipeline_parallel", c.grid.pipeline_parallel == 1},
      {"grid.stage_balance", "grid.stage_blocks", !c.grid.stage_blocks.empty()},
      {"grid.stage_times", "grid.stage_balance",
       !c.grid.stage_times.empty() && c.grid.stage_balance != StageBalance::measured},
      {"grid.zero_stage", "grid.data_parallel", c.grid.zero_stage > 0 && c.grid.data_parallel == 1},
      {"grid.zero_stage", "grid.zero_shards", c.grid.zero_stage > 0 && c.grid.zero_shards == 1},
      {"grid.zero_shards", "grid.zero_stage", c.grid.zero_stage == 0 && c.grid.zero_shards > 0},
      {"grid.recompute_interval", "grid.recompute",
       c.grid.recompute == Recompute::none && c.grid.recompute_interval > 1},
      {"numerics.virtual_tensor_parallel", "numerics.reproducible",
       !c.numerics.reproducible && c.numerics.virtual_tensor_parallel > 1},
      {"numerics.loss_scale_initial", "numerics.compute_type", no_scale},
      {"numerics.loss_scale_growth_steps", "numerics.compute_type", no_scale},
      {"optimizer.decay_norms", "optimizer.weight_decay", no_decay},
      {"optimizer.decay_biases", "optimizer.weight_decay", no_decay},
      {"optimizer.decay_embeddings", "optimizer.weight_decay", no_decay},
      {"optimizer.decay_biases", "model.bias", !no_decay && !c.model.bias},
      {"schedule.min_learning_rate", "schedule.decay", c.schedule.decay == DecayKind::constant},
      {"schedule.decay_steps", "schedule.decay", no_wsd},
      {"schedule.wsd_tail", "schedule.decay", no_wsd},
      {"data.train", "data.source", random},
      {"data.validation", "data.source", random},
      {"data.verify", "data.source", random},
      {"data.validation", "monitor.validation_interval", !random && no_validation},
      {"monitor.validation_batches", "monitor.validation_interval", no_validation}};
}

std::vector<Idle> data_rules(const Config& c) {
  const DataConfig& d = c.data;
  const bool random = d.source == DataSource::random;
  const bool is_balanced = d.balance == BalanceWork::attention;
  const bool one_micro_batch = c.batch.global_batch_size == c.batch.micro_batch_size;
  // A curriculum from the first step on leaves nothing to the weights before it.
  const bool is_replaced =
      !random && !d.curriculum.empty() && read_stage(d.curriculum.front()).value.step == 1;
  return {
      {"data.end_of_document", "data.source", random},
      {"data.packing", "data.source", random && d.packing != Packing::chunk},
      {"data.long_documents", "data.source", random},
      {"data.long_documents", "data.packing", !random && d.packing == Packing::chunk},
      {"data.temperature", "data.source", random},
      {"data.temperature", "data.weights", !random && !d.weights.empty()},
      {"data.temperature", "data.curriculum", d.weights.empty() && is_replaced},
      {"data.weights", "data.source", random && !d.weights.empty()},
      {"data.weights", "data.curriculum", !d.weights.empty() && is_replaced},
      {"data.curriculum", "data.source", random && !d.curriculum.empty()},
      {"data.balance", "data.document_mask", is_balanced && !d.document_mask},
      {"data.balance", "batch.micro_batch_size", is_balanced && d.document_mask && one_micro_batch},
      {"data.workers", "data.prefetch_steps", d.workers > 1 && d.prefetch_steps == 0}};
}

std::vector<Idle> checkpoint_rules(const Config& c) {
  const CheckpointConfig& checkpoint = c.checkpoint;
  const bool is_fixed = checkpoint.interval_rule == IntervalRule::fixed;
  // The last save and one after a signal are waited for in any case.
  const bool saves_never_midway = is_fixed && checkpoint.interval == 0;
  return {{"checkpoint.interval", "checkpoint.interval_rule", !is_fixed && checkpoint.interval > 0},
          {"checkpoint.mean_time_between_failures", "checkpoint.interval_rule",
           is_fixed && checkpoint.mean_time_between_failures > 0.0},
          {"checkpoint.mode", "checkpoint.interval", saves_never_midway},
          {"checkpoint.keep_every", "checkpoint.interval",
           saves_never_midway && checkpoint.keep_every > 0},
          {"checkpoint.chunk_mib", "checkpoint.layout",
           checkpoint.layout == StorageLayout::contiguous}};
}

void warn_all(Draft& draft, const std::vector<Idle>& rules) {
  // A deck that names every key, as an effective deck does, cannot leave out an idle one: there
  // only a value that was chosen is worth a word.
  const bool is_complete = draft.names_every_key();
  for (const Idle& rule : rules) {
    if (!rule.is_idle || !draft.is_explicit(rule.key)) continue;
    if (!draft.are_sound({rule.key, rule.cause})) continue;
    if (is_complete && draft.is_default(rule.key)) continue;
    const std::string section =
        std::string(rule.cause).substr(0, std::string(rule.cause).find('.'));
    const bool is_same = std::string(rule.key).rfind(section + ".", 0) == 0;
    draft.warn(rule.key,
               fmt::format("without effect: {}{}", is_same ? "" : section + ".",
                           draft.equation(rule.cause)),
               "");
  }
}

}  // namespace

void warn_without_effect(Draft& draft) {
  warn_all(draft, model_rules(draft.config));
  warn_all(draft, training_rules(draft.config));
  warn_all(draft, data_rules(draft.config));
  warn_all(draft, checkpoint_rules(draft.config));
}

}  // namespace espalier
