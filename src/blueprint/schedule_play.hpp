// SPDX-License-Identifier: Apache-2.0
// Private to schedule_*.cpp: plays the lists of all ranks against each other.
#pragma once

#include <string>
#include <vector>

#include "blueprint/schedule.hpp"

namespace espalier {

struct Played {
  std::vector<std::vector<double>> begins, ends;  // by rank and action, as far as it went
  std::vector<size_t> reached;                    // the first action of each rank that did not run
};

/// Plays with nonblocking transfers until no rank can go on. Chunks and micro-batches must be in
/// range; transfers that lead out of the model are passed over.
Played play(const Schedule& schedule, const std::vector<StageSeconds>& by_stage,
            double send_seconds);

/// "forward of micro-batch 3, chunk 0".
std::string describe(const PipelineAction& action);

bool sends_or_receives_outside(const Schedule& schedule, int64_t rank,
                               const PipelineAction& transfer);

}  // namespace espalier
