// SPDX-License-Identifier: Apache-2.0
#include "tensor/profile.hpp"

#include <Kokkos_Core.hpp>
#include <chrono>

#include "tensor/views.hpp"

namespace espalier {

Profile& Profile::instance() {
  static Profile profile;
  return profile;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ScopedPart::ScopedPart(Part part) : part_(part) {
  Kokkos::Profiling::pushRegion(part_name(part));
  start_ = monotonic_seconds();
}

ScopedPart::~ScopedPart() {
  Profile::instance().add(part_, monotonic_seconds() - start_);
  Kokkos::Profiling::popRegion();
}

}  // namespace espalier
