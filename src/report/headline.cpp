// SPDX-License-Identifier: Apache-2.0
// Headline numbers from the columns of a run.
#include "report/headline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/units.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> if_finite(double x) {
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

std::optional<int64_t> size_in(const Json& record, const char* key) {
  if (!record.is_object() || !record.contains(key) || !record[key].is_number()) return std::nullopt;
  const auto value = record[key].get<double>();
  return value > 0 ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

/// Median without the first step of each run, unless there is nothing else.
double steady_median(const RunData& data, Series values) {
  const Series all = values;
  for (const size_t row : data.first_rows) values[row] = std::numeric_limits<double>::quiet_NaN();
  const double steady = median(std::move(values));
  return std::isfinite(steady) ? steady : median(all);
}

void add_memory(const RunData& data, Headline& h) {
  double peak = 0.0;
  for (const double x : data.column("peak_memory_bytes"))
    if (std::isfinite(x)) peak = std::max(peak, x);
  if (const auto at_end = size_in(data.end, "peak_memory_bytes"))
    peak = std::max(peak, static_cast<double>(*at_end));
  if (peak > 0) h.peak_memory_bytes = static_cast<int64_t>(peak);
  h.predicted_memory_bytes = size_in(data.run, "predicted_memory_bytes");
  if (!h.predicted_memory_bytes)
    h.predicted_memory_bytes = size_in(data.end, "predicted_memory_bytes");
}

void add_effective_time(const RunData& data, Headline& h) {
  h.checkpoints = data.checkpoints;
  if (!data.end.is_object()) return;
  const auto ratio = data.end.find("effective_time_ratio");
  if (ratio == data.end.end() || !ratio->is_number()) return;
  h.effective_time_ratio = if_finite(ratio->get<double>());
}

Json or_null(const std::optional<double>& x) {
  return x ? Json(*x) : Json(nullptr);
}
Json or_null(const std::optional<int64_t>& x) {
  return x ? Json(*x) : Json(nullptr);
}

}  // namespace

Series smoothed_loss(const RunData& data) {
  const double span = std::max(5.0, 0.01 * static_cast<double>(data.steps.size()));
  return smooth(data.column("loss"), span);
}

Headline headline(const RunData& data) {
  Headline h;
  h.steps = data.steps.back();
  h.total_steps = size_in(data.run, "total_steps").value_or(0);
  h.state = "no end recorded";
  if (data.end.is_object() && data.end.contains("reason") && data.end["reason"].is_string())
    h.state = data.end["reason"].get<std::string>();
  const Series loss = data.column("loss");
  h.training_loss = if_finite(loss.back());
  h.training_loss_smoothed = if_finite(smoothed_loss(data).back());
  if (!data.validation_losses.empty()) h.validation_loss = if_finite(data.validation_losses.back());
  for (size_t i = 0; i < data.validation_losses.size(); ++i) {
    const double x = data.validation_losses[i];
    if (!std::isfinite(x) || (h.best_validation_loss && x >= *h.best_validation_loss)) continue;
    h.best_validation_loss = x;
    h.best_validation_step = data.validation_steps[i];
  }
  h.unigram_nats = data.unigram_nats;
  h.bigram_nats = data.bigram_nats;
  h.tokens_per_second = if_finite(steady_median(data, data.column("tokens_per_second")));
  h.mfu = if_finite(steady_median(data, data.column("mfu")));
  if (h.mfu && *h.mfu <= 0) h.mfu.reset();  // 0 is written when the peak is unknown
  add_memory(data, h);
  add_effective_time(data, h);
  h.loss_not_finite =
      std::count_if(loss.begin(), loss.end(), [](double x) { return !std::isfinite(x); });
  const Series skipped = data.column("skipped");
  h.skipped_steps = std::count(skipped.begin(), skipped.end(), 1.0);
  return h;
}

std::string headline_text(const Headline& h) {
  std::string out = fmt::format("steps            {}", h.steps);
  if (h.total_steps > 0) out += fmt::format(" of {}", h.total_steps);
  out += fmt::format(" ({})\n", h.state);
  if (h.training_loss) out += fmt::format("training loss    {:.4f}", *h.training_loss);
  if (h.training_loss && h.training_loss_smoothed)
    out += fmt::format(" (smoothed {:.4f})", *h.training_loss_smoothed);
  if (h.training_loss) out += "\n";
  if (h.validation_loss) out += fmt::format("validation loss  {:.4f}", *h.validation_loss);
  if (h.validation_loss && h.best_validation_loss)
    out +=
        fmt::format(" (best {:.4f} at step {})", *h.best_validation_loss, h.best_validation_step);
  if (h.validation_loss) out += "\n";
  if (h.unigram_nats) out += fmt::format("unigram model    {:.4f}\n", *h.unigram_nats);
  if (h.bigram_nats) out += fmt::format("bigram model     {:.4f}\n", *h.bigram_nats);
  if (h.tokens_per_second)
    out += fmt::format("throughput       {:.0f} tokens/s\n", *h.tokens_per_second);
  if (h.mfu) out += fmt::format("MFU              {:.1f} %\n", 100 * *h.mfu);
  if (h.peak_memory_bytes) {
    out += "peak memory      " + format_bytes(static_cast<double>(*h.peak_memory_bytes));
    if (h.predicted_memory_bytes)
      out += fmt::format(" (predicted {})",
                         format_bytes(static_cast<double>(*h.predicted_memory_bytes)));
    out += "\n";
  }
  if (h.effective_time_ratio)
    out += fmt::format("effective time   {:.1f} %\n", 100 * *h.effective_time_ratio);
  if (h.checkpoints.count > 0)
    out += fmt::format("checkpoints      {}, the last after step {}; {} of stall\n",
                       h.checkpoints.count, h.checkpoints.last_step,
                       format_duration(h.checkpoints.stall_seconds));
  if (h.loss_not_finite > 0) out += fmt::format("loss not finite  {} steps\n", h.loss_not_finite);
  if (h.skipped_steps > 0) out += fmt::format("skipped          {} steps\n", h.skipped_steps);
  out.pop_back();
  return out;
}

std::string headline_json(const Headline& h) {
  const Json out = {{"steps", h.steps},
                    {"total_steps", h.total_steps},
                    {"state", h.state},
                    {"training_loss", or_null(h.training_loss)},
                    {"training_loss_smoothed", or_null(h.training_loss_smoothed)},
                    {"validation_loss", or_null(h.validation_loss)},
                    {"best_validation_loss", or_null(h.best_validation_loss)},
                    {"best_validation_step", h.best_validation_step},
                    {"unigram_nats", or_null(h.unigram_nats)},
                    {"bigram_nats", or_null(h.bigram_nats)},
                    {"tokens_per_second", or_null(h.tokens_per_second)},
                    {"mfu", or_null(h.mfu)},
                    {"peak_memory_bytes", or_null(h.peak_memory_bytes)},
                    {"predicted_memory_bytes", or_null(h.predicted_memory_bytes)},
                    {"effective_time_ratio", or_null(h.effective_time_ratio)},
                    {"checkpoints", h.checkpoints.count},
                    {"checkpoint_seconds", h.checkpoints.seconds},
                    {"checkpoint_stall_seconds", h.checkpoints.stall_seconds},
                    {"loss_not_finite", h.loss_not_finite},
                    {"skipped_steps", h.skipped_steps}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace espalier
