// SPDX-License-Identifier: Apache-2.0
// Seconds by part of the step, and the Kokkos profiling regions that tools show.
#pragma once

#include <array>

#include "blueprint/blueprint.hpp"
#include "core/clock.hpp"

namespace espalier {

/// Seconds by part since the last reset; one per process, for the thread that trains.
class Profile {
 public:
  static Profile& instance();
  void reset() { seconds_.fill(0.0); }
  void add(Part part, double seconds) { seconds_[static_cast<int>(part)] += seconds; }
  double seconds(Part part) const { return seconds_[static_cast<int>(part)]; }
  const std::array<double, kPartCount>& all() const { return seconds_; }

 private:
  std::array<double, kPartCount> seconds_{};
};

/// Charges its lifetime to a part. Not nested: an inner scope would be counted twice.
class ScopedPart {
 public:
  explicit ScopedPart(Part part);
  ~ScopedPart();
  ScopedPart(const ScopedPart&) = delete;
  ScopedPart& operator=(const ScopedPart&) = delete;

 private:
  Part part_;
  double start_;
};

}  // namespace espalier
