// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "tensor/launch.hpp"

namespace espalier {

#if defined(ESPALIER_DEVICE) && !defined(ESPALIER_EMULATED_DEVICE)

// One instance a stream. They go before Kokkos does, which a plain static would outlive.
const Exec& exec() {
  static std::map<cuda::Stream, Exec>* instances = [] {
    auto* made = new std::map<cuda::Stream, Exec>;
    Kokkos::push_finalize_hook([made] { made->clear(); });
    return made;
  }();
  cuda::Stream stream = device::Stream::current().handle();
  const auto found = instances->find(stream);
  if (found != instances->end()) return found->second;
  return instances->emplace(stream, Exec(stream)).first->second;
}

#else

const Exec& exec() {
  static const auto* instance = new Exec;
  return *instance;
}

#endif

}  // namespace espalier
