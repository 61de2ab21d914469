// SPDX-License-Identifier: Apache-2.0
// The devices of all ranks at one step: of each number the worst, and the rank that has it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "monitor/device_health.hpp"

namespace espalier {

/// A number of one rank, or the sum over ranks and the rank with most of it.
struct RankNumber {
  int64_t value = 0;
  int rank = 0;
  int64_t limit = -1;  ///< clocks: the highest possible on that rank's device
};

struct ThrottleCount {
  std::string reason;
  int64_t ranks = 0;
  int first_rank = 0;
};

/// A number that no device gives is left out. Of equal ones the first rank's.
struct HealthSummary {
  int64_t step = 0;
  int64_t devices = 0;                           ///< ranks whose device gives any number
  std::optional<RankNumber> utilisation;         ///< least, percent
  std::optional<RankNumber> memory_used;         ///< most, bytes
  std::optional<RankNumber> temperature;         ///< most, degrees Celsius
  std::optional<RankNumber> sm_clock;            ///< least, MHz
  std::optional<RankNumber> memory_clock;        ///< least, MHz
  std::optional<RankNumber> power;               ///< most, milliwatts
  std::optional<RankNumber> corrected_errors;    ///< sum
  std::optional<RankNumber> uncorrected_errors;  ///< sum
  std::vector<ThrottleCount> throttle;           ///< by reason, in the order of NVML's bits
};

/// `samples` in the order of ranks.
HealthSummary summarise_health(int64_t step, const std::vector<HealthSample>& samples);

/// The line of metrics.jsonl, without the line feed.
std::string metrics_line(const HealthSummary& summary);

/// Says once of each kind of trouble what it is, where, and what to do.
class HealthWarnings {
 public:
  /// The warnings that are new. `name_of`: how messages call a rank.
  std::vector<std::string> judge(const HealthSummary& summary,
                                 const std::function<std::string(int)>& name_of);

 private:
  std::set<std::string> said_;
};

}  // namespace espalier
