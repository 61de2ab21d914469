// SPDX-License-Identifier: Apache-2.0
// The JSON form of the records, and the file they go to.
#include "monitor/metrics.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no word for what is not finite, and a reader must not take null for "not measured".
Json number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}

Json sizes(const NamedSizes& items) {
  Json out = Json::object();
  for (const auto& [name, size] : items) out[name] = out.value(name, int64_t{0}) + size;
  return out;
}

int64_t total(const NamedSizes& items) {
  int64_t sum = 0;
  for (const auto& item : items) sum += item.second;
  return sum;
}

std::string text(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json communication(const std::map<std::string, CommunicationMetrics>& axes) {
  Json out = Json::object();
  for (const auto& [axis, c] : axes)
    out[axis] = {{"bytes", c.bytes},
                 {"calls", c.calls},
                 {"seconds", number(c.seconds)},
                 {"exposed_seconds", number(c.exposed_seconds)}};
  return out;
}

/// What a step gave, without its times and sizes.
Json results(const StepMetrics& m) {
  return {{"kind", "step"},
          {"step", m.step},
          {"loss", number(m.loss)},
          {"gradient_norm", number(m.gradient_norm)},
          {"learning_rate", number(m.learning_rate)},
          {"loss_scale", number(m.loss_scale)},
          {"skipped", m.skipped},
          {"tokens", m.tokens},
          {"consumed_tokens", m.consumed_tokens}};
}

std::string hash_text(const StepMetrics& m) {
  return fmt::format("{:016x}", m.token_hash);
}

}  // namespace

std::string metrics_line(const StepMetrics& m) {
  Json parts = Json::object();
  for (const auto& [part, seconds] : m.seconds_by_part) parts[part] = number(seconds);
  Json out = results(m);
  out["step_seconds"] = number(m.step_seconds);
  out["elapsed_seconds"] = number(m.elapsed_seconds);
  out["tokens_per_second"] = number(m.tokens_per_second);
  out["model_flops_per_second"] = number(m.model_flops_per_second);
  out["mfu"] = number(m.mfu);
  out["data_wait_seconds"] = number(m.data_wait_seconds);
  out["position"] = m.position;
  if (!m.skipped_positions.empty()) out["skipped_positions"] = m.skipped_positions;
  out["padding"] = m.padding;
  out["attention_imbalance"] = number(m.attention_imbalance);
  out["token_hash"] = hash_text(m);
  out["communication"] = communication(m.communication);
  out["seconds_by_part"] = parts;
  out["stage_seconds"] = m.stage_seconds;
  out["pipeline_bubble"] = number(m.pipeline_bubble);
  out["memory_bytes"] = m.memory_bytes;
  out["peak_memory_bytes"] = m.peak_memory_bytes;
  if (m.peak_device_memory_bytes > 0) {
    out["device_memory_bytes"] = m.device_memory_bytes;
    out["peak_device_memory_bytes"] = m.peak_device_memory_bytes;
  }
  return text(out);
}

std::string result_line(const StepMetrics& m) {
  Json out = results(m);
  out["token_hash"] = hash_text(m);
  return text(out);
}

std::string metrics_line(const ValidationMetrics& m) {
  return text(
      {{"kind", "validation"}, {"step", m.step}, {"loss", number(m.loss)}, {"tokens", m.tokens}});
}

std::string metrics_line(const CheckpointMetrics& m) {
  return text({{"kind", "checkpoint"},
               {"step", m.step},
               {"seconds", number(m.seconds)},
               {"stall_seconds", number(m.stall_seconds)},
               {"bytes", m.bytes},
               {"mode", m.mode},
               {"path", m.path}});
}

std::string metrics_line(const RunRecord& r) {
  const std::string started =
      r.started.empty() ? fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))
                        : r.started;
  Json out = {{"kind", "run"},
              {"started", started},
              {"deck_path", r.deck_path},
              {"build", r.build},
              {"ranks", r.ranks},
              {"grid", sizes(r.grid)},
              {"hosts", r.hosts},
              {"compute_type", r.compute_type},
              {"master_type", r.master_type},
              {"gemm_library", r.gemm_library},
              {"gemm_kernel", r.gemm_kernel},
              {"gemm_gflops", number(r.gemm_gflops)},
              {"peak_gflops", number(r.peak_gflops)},
              {"parameters", r.parameters},
              {"flops_per_token", number(r.flops_per_token)},
              {"predicted_memory", sizes(r.predicted_memory)},
              {"predicted_memory_bytes", total(r.predicted_memory)},
              {"tokens_per_step", r.tokens_per_step},
              {"predicted_step_seconds", number(r.predicted_step_seconds)},
              {"stage_layers", r.stage_layers},
              {"first_step", r.first_step},
              {"total_steps", r.total_steps}};
  if (!r.device.empty()) {
    out["device"] = r.device;
    out["transport"] = r.transport;
    out["kernels"] = r.kernels;
    out["predicted_device_memory"] = sizes(r.predicted_device_memory);
    out["predicted_device_memory_bytes"] = total(r.predicted_device_memory);
  }
  return text(out);
}

std::string metrics_line(const EndRecord& e) {
  Json out = {{"kind", "end"},
              {"reason", e.reason},
              {"steps", e.steps},
              {"loss", number(e.loss)},
              {"validation_loss", e.validation_loss ? number(*e.validation_loss) : Json(nullptr)},
              {"peak_memory_bytes", e.peak_memory_bytes},
              {"predicted_memory_bytes", e.predicted_memory_bytes},
              {"total_seconds", number(e.total_seconds)},
              {"attempts", e.attempts},
              {"effective_time_ratio", number(e.effective_time_ratio)},
              {"checkpoints", e.checkpoints},
              {"checkpoint_seconds", number(e.checkpoint_seconds)},
              {"checkpoint_stall_seconds", number(e.checkpoint_stall_seconds)},
              {"parameter_hash",
               e.parameter_hash ? Json(fmt::format("{:016x}", *e.parameter_hash)) : Json(nullptr)}};
  if (e.predicted_device_memory_bytes > 0) {
    out["peak_device_memory_bytes"] = e.peak_device_memory_bytes;
    out["predicted_device_memory_bytes"] = e.predicted_device_memory_bytes;
  }
  return text(out);
}

MetricsWriter::MetricsWriter(std::string path, MetricsMode mode) : path_(std::move(path)) {
  // "a+" so that the last byte can be read; every write goes to the end all the same.
  file_.reset(std::fopen(path_.c_str(), mode == MetricsMode::append ? "a+" : "w"));
  if (!file_)
    throw DataError(
        fmt::format("{} cannot be opened for writing ({}); check that the run folder "
                    "exists and that you may write there",
                    path_, std::strerror(errno)));
  if (mode == MetricsMode::append && std::fseek(file_.get(), -1, SEEK_END) == 0) {
    const int last = std::fgetc(file_.get());
    std::fseek(file_.get(), 0, SEEK_END);
    if (last != '\n') write_line("");
  }
}

void MetricsWriter::write_line(std::string line) {
  line += '\n';
  errno = 0;
  const size_t written = std::fwrite(line.data(), 1, line.size(), file_.get());
  if (written != line.size() || std::fflush(file_.get()) != 0)
    throw DataError(
        fmt::format("{} cannot be written ({}); free some space or quota there and "
                    "start the run again",
                    path_, std::strerror(errno)));
}

}  // namespace espalier
