// SPDX-License-Identifier: Apache-2.0
// What a run of a layout did, how it differs from one rank, and whether that is allowed.
// docs/validate.md states the limits and where they come from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "report/validation_page.hpp"

namespace espalier {

/// From metrics.jsonl of a finished run. Means and medians leave out the first step where there are
/// more.
struct RunMeasure {
  std::vector<std::string> token_hashes;  // by step
  double step_seconds = 0.0;              // median
  int64_t peak_memory_bytes = 0;
  std::map<std::string, AxisTraffic> traffic;
};

/// Errors  DataError if the file cannot be read, is broken, or does not hold `steps` steps
RunMeasure read_measure(const std::string& metrics_path, int64_t steps);

/// From the JSON of espalier debug compare, and the tokens of both runs.
/// Errors  DataError
LayoutDifference read_difference(const std::string& compare_path, const RunMeasure& reference,
                                 const RunMeasure& run);

/// The limits for a deck: every bit in the reproducible mode; else from element type and depth, or
/// from `tolerance` for the loss.
/// Errors  DeckError for a tolerance in the reproducible mode
ValidationLimits make_limits(const Config& config, std::optional<double> tolerance);

/// Why a difference is not allowed; empty if it is.
std::string judge(const LayoutDifference& difference, const ValidationLimits& limits);

}  // namespace espalier
