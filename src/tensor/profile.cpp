// SPDX-License-Identifier: Apache-2.0
#include "tensor/profile.hpp"

#include <Kokkos_Core.hpp>

#include "tensor/views.hpp"

namespace espalier {

Profile& Profile::instance() {
  static auto* profile = new Profile;  // events must not outlive the device: see clear()
  return *profile;
}

void Profile::collect() {
  while (!under_way_.empty() && under_way_.front().to.is_reached()) {
    Span& span = under_way_.front();
    add(span.part, device::Event::seconds(span.from, span.to));
    spare_.push_back(std::move(span));
    under_way_.pop_front();
  }
}

void Profile::clear() {
  under_way_.clear();
  spare_.clear();
}

ScopedPart::ScopedPart(Part part)
    : part_(part), is_timed_(Profile::instance().is_on_ && !device::is_recording()) {
  Kokkos::Profiling::pushRegion(part_name(part));
  device::push_range(part_name(part));
  if (!is_timed_) return;
  if constexpr (device::kPresent) {
    auto& spare = Profile::instance().spare_;
    if (!spare.empty()) {
      span_ = std::move(spare.front());
      spare.pop_front();
    }
    span_.part = part;
    span_.from.record();
  } else {
    start_ = monotonic_seconds();
  }
}

ScopedPart::~ScopedPart() {
  if (is_timed_) {
    if constexpr (device::kPresent) {
      span_.to.record();
      Profile::instance().under_way_.push_back(std::move(span_));
    } else {
      Profile::instance().add(part_, monotonic_seconds() - start_);
    }
  }
  device::pop_range();
  Kokkos::Profiling::popRegion();
}

}  // namespace espalier
