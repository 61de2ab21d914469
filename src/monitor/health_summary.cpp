// SPDX-License-Identifier: Apache-2.0
#include "monitor/health_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace espalier {
namespace {

using Json = nlohmann::ordered_json;
using Samples = std::vector<HealthSample>;

template <class Better>
std::optional<RankNumber> extreme(const Samples& samples, HealthNumber number, const Better& better,
                                  std::optional<HealthNumber> limit = std::nullopt) {
  std::optional<RankNumber> found;
  for (size_t r = 0; r < samples.size(); ++r) {
    const int64_t value = samples[r][number];
    if (value < 0 || (found && !better(value, found->value))) continue;
    found = {value, static_cast<int>(r), limit ? samples[r][*limit] : -1};
  }
  return found;
}

std::optional<RankNumber> sum(const Samples& samples, HealthNumber number) {
  std::optional<RankNumber> found = extreme(samples, number, std::greater<>());
  if (!found) return found;
  found->value = 0;
  for (const HealthSample& s : samples) found->value += std::max<int64_t>(0, s[number]);
  return found;
}

std::vector<ThrottleCount> count_throttling(const Samples& samples) {
  std::vector<ThrottleCount> counts;
  constexpr int64_t kAllBits = (int64_t{1} << 40) - 1;
  for (const std::string& reason : throttle_reasons(kAllBits)) {
    ThrottleCount count{reason, 0, 0};
    for (size_t r = 0; r < samples.size(); ++r) {
      const std::vector<std::string> own = throttle_reasons(samples[r][HealthNumber::throttle]);
      if (std::find(own.begin(), own.end(), reason) == own.end()) continue;
      if (count.ranks++ == 0) count.first_rank = static_cast<int>(r);
    }
    if (count.ranks > 0) counts.push_back(count);
  }
  return counts;
}

void add(Json& line, const char* name, const char* which, const std::optional<RankNumber>& n) {
  if (!n) return;
  line[name] = {{which, n->value}, {"rank", n->rank}};
  if (n->limit >= 0) line[name]["limit"] = n->limit;
}

}  // namespace

HealthSummary summarise_health(int64_t step, const Samples& samples) {
  using N = HealthNumber;
  const std::less<> less;
  const std::greater<> greater;
  HealthSummary s;
  s.step = step;
  for (const HealthSample& sample : samples) s.devices += sample.is_empty() ? 0 : 1;
  s.utilisation = extreme(samples, N::utilisation, less);
  s.memory_used = extreme(samples, N::memory_used, greater);
  s.temperature = extreme(samples, N::temperature, greater);
  s.sm_clock = extreme(samples, N::sm_clock, less, N::sm_clock_limit);
  s.memory_clock = extreme(samples, N::memory_clock, less, N::memory_clock_limit);
  s.power = extreme(samples, N::power, greater);
  s.corrected_errors = sum(samples, N::corrected_errors);
  s.uncorrected_errors = sum(samples, N::uncorrected_errors);
  s.throttle = count_throttling(samples);
  return s;
}

std::string metrics_line(const HealthSummary& s) {
  Json line = {{"kind", "device"}, {"step", s.step}, {"devices", s.devices}};
  add(line, "utilisation_percent", "least", s.utilisation);
  add(line, "memory_used_bytes", "most", s.memory_used);
  add(line, "temperature_celsius", "most", s.temperature);
  add(line, "sm_clock_mhz", "least", s.sm_clock);
  add(line, "memory_clock_mhz", "least", s.memory_clock);
  if (s.power)
    line["power_watts"] = {{"most", static_cast<double>(s.power->value) * 1e-3},
                           {"rank", s.power->rank}};
  add(line, "corrected_ecc_errors", "sum", s.corrected_errors);
  add(line, "uncorrected_ecc_errors", "sum", s.uncorrected_errors);
  line["throttle"] = Json::array();
  for (const ThrottleCount& t : s.throttle)
    line["throttle"].push_back({{"reason", t.reason}, {"ranks", t.ranks}, {"rank", t.first_rank}});
  return line.dump();
}

std::vector<std::string> HealthWarnings::judge(const HealthSummary& s,
                                               const std::function<std::string(int)>& name_of) {
  std::vector<std::string> news;
  for (const ThrottleCount& t : s.throttle) {
    if (!said_.insert(t.reason).second) continue;
    const std::string others = t.ranks > 1 ? fmt::format(" and of {} more", t.ranks - 1) : "";
    news.push_back(fmt::format(
        "step {}: the GPU of {}{} runs below its clock: {}; all ranks wait for the slowest (see "
        "nvidia-smi -q -d PERFORMANCE there, its cooling and its power limit)",
        s.step, name_of(t.first_rank), others, t.reason));
  }
  if (s.uncorrected_errors && s.uncorrected_errors->value > 0 && said_.insert("uncorrected").second)
    news.push_back(fmt::format(
        "step {}: {} uncorrected ECC errors since the driver was loaded, most on the GPU of {}; "
        "leave the node out of the next job and have it looked at",
        s.step, s.uncorrected_errors->value, name_of(s.uncorrected_errors->rank)));
  return news;
}

}  // namespace espalier
