// SPDX-License-Identifier: Apache-2.0
// Clocks, rates, the table and its JSON.
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands/corpus_bench.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

double cpu_seconds() {
  double seconds = 0.0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    seconds += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return seconds;
}

// Best and median seconds of the laps that have any.
BenchRate seconds_of(const BenchRow& row, BenchClock clock) {
  std::vector<double> seconds;
  for (const Lap& lap : row.laps) {
    const double s = clock == BenchClock::cpu ? lap.cpu : lap.wall;
    if (s > 0.0) seconds.push_back(s);
  }
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  return {seconds.front(), 0.5 * (seconds[(n - 1) / 2] + seconds[n / 2])};
}

std::string cell(double value, int width, int digits) {
  return value > 0.0 ? fmt::format("{:>{}.{}f}", value, width, digits)
                     : fmt::format("{:>{}}", "-", width);
}

}  // namespace

Lap take_lap(const std::function<void()>& action) {
  const double wall = monotonic_seconds(), cpu = cpu_seconds();
  action();
  const double used = cpu_seconds() - cpu;
  return {monotonic_seconds() - wall, used};
}

std::vector<BenchRow> measure_stages(const std::string& group, BenchClock clock, int64_t repeats,
                                     const std::vector<BenchStage>& stages) {
  std::vector<BenchRow> rows;
  for (const BenchStage& stage : stages)
    rows.push_back({group, stage.name, stage.against, clock, stage.bytes, 1, {}});
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < stages.size(); ++i) {
      if (stages[i].prepare) stages[i].prepare();
      rows[i].laps.push_back(take_lap(stages[i].run));
    }
  }
  return rows;
}

BenchRate rate_of(const BenchRow& row, BenchClock clock) {
  const BenchRate seconds = seconds_of(row, clock);
  if (seconds.best <= 0.0) return {};
  const double megabytes = static_cast<double>(row.bytes) * 1e-6 / static_cast<double>(row.ranks);
  return {megabytes / seconds.best, megabytes / seconds.median};
}

BenchRate ratio_of(const std::vector<BenchRow>& rows, const BenchRow& row) {
  for (const BenchRow& other : rows) {
    if (other.group != row.group || other.name != row.against) continue;
    const BenchRate a = rate_of(row, row.clock), b = rate_of(other, row.clock);
    if (a.best <= 0.0 || b.best <= 0.0) return {};
    const double ranks = static_cast<double>(row.ranks) / static_cast<double>(other.ranks);
    return {a.best / b.best * ranks, a.median / b.median * ranks};
  }
  return {};
}

std::vector<std::string> bench_table(const std::vector<BenchRow>& rows) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:<38} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}  {}",
                              "MB/s of text a core", "CPU best", "median", "wall best", "median",
                              "ratio", "median", "to"));
  std::string group;
  for (const BenchRow& row : rows) {
    if (row.group != group) lines.push_back(row.group);
    group = row.group;
    const BenchRate cpu = rate_of(row, BenchClock::cpu), wall = rate_of(row, BenchClock::wall);
    const BenchRate ratio = ratio_of(rows, row);
    std::string line =
        fmt::format("  {:<36} {} {} {} {} {} {}", row.name, cell(cpu.best, 9, 1),
                    cell(cpu.median, 9, 1), cell(wall.best, 9, 1), cell(wall.median, 9, 1),
                    cell(ratio.best, 8, 3), cell(ratio.median, 8, 3));
    if (ratio.best > 0.0)
      line += fmt::format("  {}{}", row.against, row.clock == BenchClock::wall ? " (wall)" : "");
    lines.push_back(std::move(line));
  }
  return lines;
}

nlohmann::json bench_json(const std::vector<BenchRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const BenchRow& row : rows) {
    nlohmann::json one = {
        {"group", row.group}, {"stage", row.name}, {"text_bytes", row.bytes}, {"ranks", row.ranks}};
    for (const Lap& lap : row.laps) {
      one["wall_seconds"].push_back(lap.wall);
      if (lap.cpu > 0.0) one["cpu_seconds"].push_back(lap.cpu);
    }
    const BenchRate ratio = ratio_of(rows, row);
    if (ratio.best > 0.0)
      one["ratio"] = {{"to", row.against},
                      {"clock", row.clock == BenchClock::wall ? "wall" : "cpu"},
                      {"best", ratio.best},
                      {"median", ratio.median}};
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace espalier
