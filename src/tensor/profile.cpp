// SPDX-License-Identifier: Apache-2.0
#include "tensor/profile.hpp"

#include <Kokkos_Core.hpp>

#include "tensor/views.hpp"

namespace espalier {

Profile& Profile::instance() {
  static auto* profile = new Profile;  // events must not outlive the device: see clear()
  return *profile;
}

Profile::Track& Profile::track() {
  const cuda::Stream stream = device::Stream::current().handle();
  for (Track& t : tracks_)
    if (t.stream == stream) return t;
  tracks_.emplace_back();
  tracks_.back().stream = stream;
  return tracks_.back();
}

void Profile::add_mark(Track& t, bool begins, Part part) {
  if (spare_.empty()) spare_.emplace_back();
  t.marks.push_back(std::move(spare_.back()));
  spare_.pop_back();
  Mark& mark = t.marks.back();
  mark.begins = begins;
  mark.part = part;
  mark.event.record();
}

// If the device has come to the end of the part before, it stands still until this one's work: that
// time belongs to neither.
void Profile::begin(Part part) {
  Track& t = track();
  const bool meets = !t.is_separate && !t.marks.empty() && !t.marks.back().begins &&
                     !t.marks.back().event.is_reached();
  t.is_separate = false;
  if (!meets) return add_mark(t, true, part);
  t.marks.back().begins = true;
  t.marks.back().part = part;
}

void Profile::end() {
  add_mark(track(), false, Part::other);
}

void Profile::set_on(bool on) {
  is_on_ = on;
  for (Track& t : tracks_) t.is_separate = true;
}

void Profile::separate() {
  if constexpr (device::kPresent) track().is_separate = true;
}

void Profile::collect() {
  for (Track& t : tracks_)
    while (t.marks.size() > 1 && t.marks[1].event.is_reached()) {
      const Mark& mark = t.marks.front();
      if (mark.begins) add(mark.part, device::Event::seconds(mark.event, t.marks[1].event));
      spare_.push_back(std::move(t.marks.front()));
      t.marks.pop_front();
    }
}

void Profile::clear() {
  tracks_.clear();
  spare_.clear();
}

ScopedPart::ScopedPart(Part part)
    : part_(part), is_timed_(Profile::instance().is_on_ && !device::is_recording()) {
  Kokkos::Profiling::pushRegion(part_name(part));
  device::push_range(part_name(part));
  if (!is_timed_) return;
  if constexpr (device::kPresent)
    Profile::instance().begin(part);
  else
    start_ = monotonic_seconds();
}

ScopedPart::~ScopedPart() {
  if (is_timed_) {
    if constexpr (device::kPresent)
      Profile::instance().end();
    else
      Profile::instance().add(part_, monotonic_seconds() - start_);
  }
  device::pop_range();
  Kokkos::Profiling::popRegion();
}

}  // namespace espalier
