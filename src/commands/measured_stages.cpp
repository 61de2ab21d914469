// SPDX-License-Identifier: Apache-2.0
#include "commands/measured_stages.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "commands/run_folder.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw DataError(fmt::format(
      "{}: {}; grid.stage_times must name the folder of a run with pipeline_parallel > 1 that did "
      "at least two steps",
      file, why));
}

void take_line(const Json& record, MeasuredStages& measured, std::vector<double>& sums,
               int64_t& steps) {
  const std::string kind = record.value("kind", "");
  if (kind == "run") {
    measured = {};
    sums.clear();
    steps = 0;
    for (const Json& range : record.value("stage_layers", Json::array()))
      measured.ranges.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
  }
  if (kind != "step") return;
  const auto seconds = record.value("stage_seconds", std::vector<double>{});
  if (seconds.empty() || seconds.size() != measured.ranges.size()) return;
  if (steps++ == 0) {
    sums.assign(seconds.size(), 0.0);  // the first step warms up
    return;
  }
  for (size_t i = 0; i < seconds.size(); ++i) sums[i] += seconds[i];
}

}  // namespace

MeasuredStages read_measured_stages(const std::string& folder) {
  const std::string file = RunFolder{folder}.metrics();
  std::ifstream in(file);
  if (!in) refuse(file, "cannot be read");
  MeasuredStages measured;
  std::vector<double> sums;
  int64_t steps = 0;
  try {
    for (std::string line; std::getline(in, line);)
      if (!line.empty()) take_line(Json::parse(line), measured, sums, steps);
  } catch (const Json::exception& e) {
    refuse(file, std::string("is no metrics file (") + e.what() + ")");
  }
  if (measured.ranges.size() < 2 || steps < 2) refuse(file, "has no stage times");
  for (const double s : sums) measured.seconds.push_back(s / static_cast<double>(steps - 1));
  return measured;
}

bool fill_measured_stages(Config& config) {
  GridConfig& grid = config.grid;
  if (grid.stage_balance != StageBalance::measured || !grid.stage_blocks.empty()) return false;
  if (grid.pipeline_parallel == 1) return false;
  const ModelCosts costs = measured_costs(config, read_measured_stages(grid.stage_times));
  for (const StageRange& r : stage_ranges(config, costs.layers, costs.embedding, costs.head))
    grid.stage_blocks.push_back(r.last - r.first);
  return true;
}

}  // namespace espalier
