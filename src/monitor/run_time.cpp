// SPDX-License-Identifier: Apache-2.0
#include "monitor/run_time.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

/// A time that can be added up; nothing for anything else.
std::optional<double> seconds(const Json& record, const char* key) {
  const auto at = record.find(key);
  if (at == record.end() || !at->is_number()) return std::nullopt;
  const auto value = at->get<double>();
  return std::isfinite(value) && value >= 0.0 ? std::optional(value) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(int64_t resumed_step) : resumed_step_(resumed_step) {}

  /// False if the line is no record.
  bool take(const std::string& line) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object()) return false;
    const auto kind = record.find("kind");
    if (kind == record.end() || !kind->is_string()) return false;
    if (*kind == "step") return take_step(record);
    if (*kind == "run")
      begin_attempt();
    else if (*kind == "end")
      return lasted(record, "total_seconds");
    return true;  // other kinds hold no time that counts
  }

  RunTime result() {
    total_ += longest_;
    longest_ = 0.0;
    RunTime time;
    for (const auto& [step, spent] : steps_) time.productive_seconds += spent;
    time.total_seconds = total_;
    time.attempts = attempts_;
    return time;
  }

 private:
  void begin_attempt() {
    total_ += longest_;
    longest_ = 0.0;
    ++attempts_;
  }

  bool lasted(const Json& record, const char* key) {
    const std::optional<double> time = seconds(record, key);
    if (time) longest_ = std::max(longest_, *time);
    return time.has_value();
  }

  bool take_step(const Json& record) {
    const auto step = record.find("step");
    const std::optional<double> spent = seconds(record, "step_seconds");
    if (step == record.end() || !step->is_number_integer() || !spent) return false;
    if (!lasted(record, "elapsed_seconds")) return false;
    const auto number = step->get<int64_t>();
    if (number >= 1 && number <= resumed_step_) steps_[number] = *spent;
    return true;
  }

  int64_t resumed_step_;
  std::map<int64_t, double> steps_;
  double total_ = 0.0, longest_ = 0.0;
  int64_t attempts_ = 0;
};

}  // namespace

RunTime read_run_time(const std::string& metrics_path, int64_t resumed_step) {
  errno = 0;
  std::ifstream file(metrics_path);
  if (!file) {
    if (errno == ENOENT) return {};
    throw DataError(fmt::format("{} cannot be read ({}); check permissions of the run folder",
                                metrics_path, std::strerror(errno)));
  }
  Reader reader(resumed_step);
  int64_t damaged = 0;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && !reader.take(line)) ++damaged;
  if (file.bad())
    throw DataError(fmt::format("{} cannot be read to its end ({}); check the disk", metrics_path,
                                std::strerror(errno)));
  RunTime time = reader.result();
  time.damaged_lines = damaged;
  return time;
}

}  // namespace espalier
