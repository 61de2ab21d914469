// SPDX-License-Identifier: Apache-2.0
// The device under a training run: its memory beside the bill, and its health. In a build for the
// host there is none, and nothing here costs anything.
#pragma once

#include <string>
#include <vector>

#include "commands/spmd_context.hpp"
#include "monitor/device_health.hpp"
#include "monitor/metrics.hpp"

namespace espalier {

/// Bytes of device memory on one rank.
struct DeviceUse {
  int64_t now = 0, peak = 0;
};

class RunDevice {
 public:
  explicit RunDevice(const Launch& launch);

  /// When the libraries have what they need, and nothing else is allocated: what follows is the
  /// run's. Collective
  void settle();
  /// For the bill: what the context and the libraries took until settle(), the rank with most.
  MemoryAssumptions assume(MemoryAssumptions host) const;
  /// Errors  LaunchError with the bill on every rank where it does not fit on one. Collective
  void require_room(const MemoryBill& bill) const;
  /// All of the above for what has no other bill to keep: the bill of a training session on the
  /// rank with most, after it was found to fit. Collective. Errors  as require_room
  MemoryBill settle_and_require_room();
  /// Allocated since settle(), with the context and the libraries; of this rank.
  DeviceUse use() const;

  void describe(RunRecord& record, const MemoryBill& bill) const;
  void print(const RunRecord& record) const;

  /// Asks the devices of all ranks, at steps of monitor.log_interval, and warns on rank 0 of what
  /// was not said yet. The summary is empty where no device tells anything. Collective
  std::optional<HealthSummary> watch(int64_t step);

 private:
  const Launch& launch_;
  const ComputeDevice& device_;
  DeviceHealth health_;
  HealthWarnings warnings_;
  bool has_health_ = false;                  // any rank
  int64_t runtime_bytes_ = 0, settled_ = 0;  // all that was taken then; of it, by device::allocate
};

}  // namespace espalier
