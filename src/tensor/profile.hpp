// SPDX-License-Identifier: Apache-2.0
// Seconds by part of the step, and the regions that Kokkos Tools and Nsight show.
#pragma once

#include <array>
#include <deque>

#include "blueprint/blueprint.hpp"
#include "core/clock.hpp"
#include "device/device.hpp"

namespace espalier {

/// Seconds by part since the last reset; one per process, for the thread that trains.
///
/// On a device the seconds are the device's, between events around each part's work. What it has
/// not finished when collect() is called counts with the next step. Inside a graph nothing is
/// timed.
class Profile {
 public:
  static Profile& instance();
  void reset() { seconds_.fill(0.0); }
  void add(Part part, double seconds) { seconds_[static_cast<int>(part)] += seconds; }
  /// Adds what the device has finished; does not wait.
  void collect();
  double seconds(Part part) const { return seconds_[static_cast<int>(part)]; }
  const std::array<double, kPartCount>& all() const { return seconds_; }
  /// Whether parts are timed from now on; they are at the start.
  void set_on(bool on) { is_on_ = on; }
  /// Gives the events back, before the device goes.
  void clear();

 private:
  friend class ScopedPart;
  struct Span {
    Part part = Part::other;
    device::Event from{device::Event::Timing::yes}, to{device::Event::Timing::yes};
  };
  std::array<double, kPartCount> seconds_{};
  std::deque<Span> under_way_, spare_;
  bool is_on_ = true;
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
  bool is_timed_;
  double start_ = 0.0;
  Profile::Span span_;
};

}  // namespace espalier
