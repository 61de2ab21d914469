// SPDX-License-Identifier: Apache-2.0
// The HTML page of a run.
#pragma once

#include <string>

#include "report/headline.hpp"
#include "report/run_data.hpp"

namespace espalier {

/// One page that needs no other file and no network (its content policy forbids both). All text
/// that comes from the run is escaped.
std::string report_page(const RunData& data, const Headline& h);

}  // namespace espalier
