// SPDX-License-Identifier: Apache-2.0
// Seconds by part of the step, and the regions that Kokkos Tools and Nsight show.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "core/clock.hpp"
#include "device/device.hpp"

namespace espalier {

/// Seconds by part since the last reset; one per process, for the thread that trains.
///
/// On a device the seconds are the device's, between events around each part's work. Where a part
/// begins before the device has come to the end of the one before it on the same stream, one event
/// serves both: what else the stream was given between them counts with the later one, unless
/// separate() was called. What the device has not finished when collect() is called counts with the
/// next step. Inside a graph nothing is timed.
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
  void set_on(bool on);
  /// The current stream is given what belongs to no part, or a wait for another stream: the next
  /// part on it begins with an event of its own.
  void separate();
  /// Gives the events back, before the device goes.
  void clear();

 private:
  friend class ScopedPart;
  /// A point in a stream, and the part that it begins or none.
  struct Mark {
    device::Event event{device::Event::Timing::yes};
    Part part = Part::other;
    bool begins = false;
  };
  struct Track {
    cuda::Stream stream = nullptr;
    std::deque<Mark> marks;
    bool is_separate = false;  // nothing begins at the last mark
  };
  Track& track();  // of the current stream
  void begin(Part part);
  void end();
  void add_mark(Track& track, bool begins, Part part);

  std::array<double, kPartCount> seconds_{};
  std::deque<Track> tracks_;
  std::vector<Mark> spare_;
  bool is_on_ = true;
};

/// Charges its lifetime to a part. Not nested: on the host an inner scope would be counted twice,
/// on a device what comes after it not at all.
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
};

}  // namespace espalier
