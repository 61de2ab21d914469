// SPDX-License-Identifier: Apache-2.0
// Which share of the time of a run, restarts included, went into steps that count.
#pragma once

#include <cstdint>
#include <string>

namespace espalier {

/// Over the attempts of a run: every start of the program in its folder is one.
struct RunTime {
  double productive_seconds = 0.0;  ///< of the steps that count, each once
  double total_seconds = 0.0;       ///< that the program ran, as far as the records tell
  int64_t attempts = 0;
  int64_t damaged_lines = 0;  ///< that were no records, and left out

  /// productive / total, docs/metrics.md; 0 before there is any time.
  double effective_ratio() const {
    return total_seconds > 0.0 ? productive_seconds / total_seconds : 0.0;
  }
};

/// The attempts recorded in metrics.jsonl before one that resumes after `resumed_step` (0: begins
/// anew), which adds itself. Steps beyond it were lost; of a step done twice the later record
/// counts. An attempt lasted as long as its last record of a time says: what it did after that,
/// before it was killed, no record tells.
///
/// Trusts nothing in the file. No file: no attempts.
/// Errors  DataError if the file is there and cannot be read
RunTime read_run_time(const std::string& metrics_path, int64_t resumed_step);

}  // namespace espalier
