// SPDX-License-Identifier: Apache-2.0
// The table of espalier validate: one layout a row, as text, JSON and a page. docs/validate.md
// defines the numbers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace espalier {

/// What one axis of the grid did in one step, on rank 0: means over the steps.
struct AxisTraffic {
  double bytes = 0.0;            // sent
  double exposed_seconds = 0.0;  // waited for
};

/// What a layout did otherwise than one rank. Relative; 0: the same bits.
struct LayoutDifference {
  double loss = 0.0;           // the largest over the steps
  double gradient_norm = 0.0;  // the largest over the steps
  double update = 0.0;         // of all parameters as one vector
  std::string worst_tensor;    // whose own update differs most; empty: none does
  double worst_update = 0.0;
  double worst_quiet_update = 0.0;  // the same without the tensors that rounding alone may move
  int64_t unequal_elements = 0;     // of the final tensors, by their bits
  int64_t unequal_tokens = 0;       // steps whose tokens were others
};

struct ValidationRow {
  std::string layout;
  int64_t ranks = 1;
  std::string folder, log;
  int exit_code = 0;
  double run_seconds = 0.0;  // of the whole run
  double step_seconds = 0.0;
  int64_t peak_memory_bytes = 0;
  std::map<std::string, AxisTraffic> traffic;  // by axis
  std::optional<LayoutDifference> difference;  // nothing where the run gave no result
  bool passed = false;
  std::string reason;  // of a failure
};

struct ValidationLimits {
  bool every_bit = false;  // then the numbers below are 0
  double loss = 0.0, gradient_norm = 0.0, update = 0.0;
  double tensor_update = 0.0;  // of each tensor by itself
  bool is_narrow = false;      // then tensors that rounding alone may move do not count for that
};

struct ValidationTable {
  std::string deck, launcher, compute_type, started;
  int64_t steps = 0;
  ValidationLimits limits;
  ValidationRow reference;  // one rank
  std::vector<ValidationRow> rows;

  int64_t failures() const;
};

/// Lines for a terminal, one a layout and one for each failure.
std::string validation_text(const ValidationTable& table);

/// Format "espalier validation", version 1; numbers that are not finite are texts, as in metrics.
std::string validation_json(const ValidationTable& table);

/// One page that needs no other file and no network.
std::string validation_page(const ValidationTable& table);

}  // namespace espalier
