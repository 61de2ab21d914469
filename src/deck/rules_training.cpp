// SPDX-License-Identifier: Apache-2.0
// Rules across numerics, schedule, data and monitor.
#include <fmt/format.h>

#include "deck/draft.hpp"

namespace espalier {
namespace {

void check_element_types(Draft& draft) {
  if (!draft.are_sound({"numerics.compute_type", "numerics.gradient_reduce_type"})) return;
  const NumericsConfig& numerics = draft.config.numerics;
  const bool computes_double = numerics.compute_type == ElementType::fp64;
  if (numerics.gradient_reduce_type == ElementType::fp64 && !computes_double)
    draft.fault("numerics.gradient_reduce_type",
                draft.equation("numerics.compute_type") + " has no fp64 gradients",
                "try \"fp32\" or \"bf16\"", {"numerics.compute_type"});
  if (numerics.gradient_reduce_type == ElementType::bf16 && computes_double)
    draft.fault("numerics.gradient_reduce_type",
                "compute_type = \"fp64\" is for tests of accuracy, which bf16 would spoil",
                "try \"fp64\" or \"fp32\"", {"numerics.compute_type"});
}

void check_master_type(Draft& draft) {
  if (!draft.are_sound({"numerics.compute_type", "numerics.master_type"})) return;
  const ElementType compute = draft.config.numerics.compute_type;
  const ElementType master = draft.config.numerics.master_type;
  const bool computes_double = compute == ElementType::fp64;
  if (computes_double != (master == ElementType::fp64))
    draft.fault("numerics.master_type",
                draft.equation("numerics.compute_type") +
                    (computes_double ? " keeps its weights in fp64" : " has no fp64 weights"),
                computes_double ? "try \"fp64\"" : "try \"fp32\"", {"numerics.compute_type"});
  else if (master == ElementType::bf16 && compute != ElementType::bf16)
    draft.fault("numerics.master_type",
                "bf16 weights are the ones that are computed with, but " +
                    draft.equation("numerics.compute_type"),
                "try \"fp32\", or compute_type = \"bf16\"", {"numerics.compute_type"});
}

void check_steps(Draft& draft) {
  if (!draft.are_sound({"run.steps", "schedule.warmup_steps"})) return;
  const int64_t steps = draft.config.run.steps;
  const ScheduleConfig& schedule = draft.config.schedule;
  if (schedule.warmup_steps > steps) {
    draft.fault("schedule.warmup_steps", fmt::format("above run.steps = {}", steps),
                fmt::format("try {}", steps), {"run.steps"});
    return;
  }
  if (!draft.are_sound({"schedule.decay", "schedule.decay_steps"}) ||
      schedule.decay != DecayKind::wsd || schedule.warmup_steps + schedule.decay_steps <= steps)
    return;
  const std::string sum = fmt::format(
      "warmup_steps + decay_steps = {} + {} = {} is above run.steps = {}", schedule.warmup_steps,
      schedule.decay_steps, schedule.warmup_steps + schedule.decay_steps, steps);
  const bool is_tail_free = steps - schedule.warmup_steps >= 1;
  if (draft.is_explicit("schedule.decay_steps") && is_tail_free)
    draft.fault("schedule.decay_steps", sum, fmt::format("try {}", steps - schedule.warmup_steps));
  else if (schedule.decay_steps <= steps)
    draft.fault("schedule.warmup_steps", sum, fmt::format("try {}", steps - schedule.decay_steps),
                {"run.steps", "schedule.decay"});
  else
    draft.fault("schedule.decay_steps", sum, fmt::format("try {}, with less warmup", steps));
}

void check_rates(Draft& draft) {
  if (!draft.are_sound({"schedule.decay", "schedule.min_learning_rate", "optimizer.learning_rate"}))
    return;
  const double lowest = draft.config.schedule.min_learning_rate;
  const double highest = draft.config.optimizer.learning_rate;
  if (draft.config.schedule.decay == DecayKind::constant || lowest <= highest) return;
  draft.fault("schedule.min_learning_rate",
              "above optimizer." + draft.equation("optimizer.learning_rate"),
              "try " + draft.value_text("optimizer.learning_rate"), {"optimizer.learning_rate"});
}

void check_files(Draft& draft) {
  if (!draft.are_sound({"data.source"}) || draft.config.data.source != DataSource::files) return;
  const std::string why = "data.source = \"files\" needs token files";
  if (draft.are_sound({"data.train"}) && draft.config.data.train.empty()) {
    const char* remedy = "list files made by espalier corpus build, or data.source = \"random\"";
    if (draft.is_explicit("data.train"))
      draft.fault("data.train", why, remedy);
    else
      draft.missing("data.train", why, remedy, {"data.source"});
  }
  if (!draft.are_sound({"data.validation", "monitor.validation_interval"})) return;
  if (draft.config.monitor.validation_interval == 0 || !draft.config.data.validation.empty())
    return;
  const std::string need =
      fmt::format("monitor.{} needs held-out files", draft.equation("monitor.validation_interval"));
  const char* remedy = "list files, or validation_interval = 0";
  if (draft.is_explicit("data.validation"))
    draft.fault("data.validation", need, remedy);
  else
    draft.missing("data.validation", need, remedy, {"monitor.validation_interval"});
}

}  // namespace

void check_training(Draft& draft) {
  check_element_types(draft);
  check_master_type(draft);
  check_steps(draft);
  check_rates(draft);
  check_files(draft);
}

}  // namespace espalier
