// SPDX-License-Identifier: Apache-2.0
// The schedules that the tests of schedules go through, and words on what a check found.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "blueprint/schedule.hpp"

namespace espalier {

using Kind = PipelineSchedule;
inline constexpr Kind kKinds[] = {Kind::gpipe, Kind::one_forward_one_backward, Kind::interleaved,
                                  Kind::zero_bubble};

// Every legal schedule of the sizes that the tests go through.
inline void for_all(const std::function<void(const Schedule&)>& see) {
  for (const Kind kind : kKinds)
    for (int64_t p = 1; p <= 8; ++p)
      for (const int64_t m : {1, 2, 3, 4, 8, 16})
        for (int64_t v = 1; v <= 4; ++v) {
          const bool is_interleaved = kind == Kind::interleaved;
          if ((v > 1 && !is_interleaved) || (is_interleaved && m % p != 0)) continue;
          SCOPED_TRACE(fmt::format("kind {} p {} m {} v {}", static_cast<int>(kind), p, m, v));
          see(make_schedule(kind, p, v, m));
        }
}

inline std::vector<StageSeconds> equal_costs(const Schedule& s, StageSeconds cost = {}) {
  return std::vector<StageSeconds>(static_cast<size_t>(s.stages()), cost);
}

inline std::string joined(const ScheduleCheck& check) {
  std::string text;
  for (const std::string& fault : check.faults) text += fault + "\n";
  return text;
}

inline bool mentions(const ScheduleCheck& check, const std::string& what) {
  return joined(check).find(what) != std::string::npos;
}

}  // namespace espalier
