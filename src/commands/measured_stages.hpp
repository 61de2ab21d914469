// SPDX-License-Identifier: Apache-2.0
// grid.stage_balance = "measured": stages by the times of an earlier run.
#pragma once

#include <string>

#include "blueprint/stage_layout.hpp"

namespace espalier {

/// The layers of each stage of the run in `folder` and the mean seconds of its steps (all but the
/// first), from its metrics.jsonl.
/// Errors  DataError if there is no such file, or no stage times in it
MeasuredStages read_measured_stages(const std::string& folder);

/// Where the deck asks for measured stages and lists none: lists them in grid.stage_blocks, and
/// returns true.
bool fill_measured_stages(Config& config);

}  // namespace espalier
