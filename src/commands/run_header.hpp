// SPDX-License-Identifier: Apache-2.0
// What a run says about itself before its first step.
#pragma once

#include "commands/run_device.hpp"
#include "commands/spmd_context.hpp"
#include "corpus/batch_source.hpp"
#include "monitor/metrics.hpp"

namespace espalier {

/// Axes and extents, in grid order.
NamedSizes grid_extents(const GridShape& shape);
/// Each host once, in the order of ranks.
std::vector<std::string> host_names(const Grid& grid);

/// peak_flops: of one rank, FLOP/s.
RunRecord make_run_record(const Launch& launch, const RunDevice& device, const MemoryBill& bill,
                          double peak_flops);

void print_run_header(const RunRecord& record, const Launch& launch, const RunDevice& device,
                      const MemoryBill& bill, const BatchSource& data);

}  // namespace espalier
