// SPDX-License-Identifier: Apache-2.0
// From a run folder to its report: the door of this room.
#pragma once

#include <string>

#include "report/headline.hpp"

namespace espalier {

struct ReportResult {
  std::string path;  ///< of the page
  Headline headline;
};

/// Reads the run in `directory` and writes its page to `output`, or if that is empty to
/// report.html in the folder. The page appears whole or not at all.
///
/// Errors  DataError if there is no run, no step record, or the page cannot be written
ReportResult write_report(const std::string& directory, const std::string& output = "");

}  // namespace espalier
