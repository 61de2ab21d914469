// SPDX-License-Identifier: Apache-2.0
#include "tensor/profile.hpp"

#include <Kokkos_Core.hpp>

#include "tensor/views.hpp"

namespace espalier {

Profile& Profile::instance() {
  static Profile profile;
  return profile;
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
