// SPDX-License-Identifier: Apache-2.0
#include "commands/compute_session.hpp"

#include <Kokkos_Core.hpp>

#include "grid/agreement.hpp"
#include "grid/device_choice.hpp"
#include "grid/transport.hpp"
#include "tensor/gemm.hpp"
#include "tensor/profile.hpp"
#include "tensor/views.hpp"

namespace espalier {
namespace {

void start_kokkos_on(int ordinal) {
#if KOKKOS_VERSION >= 30700
  Kokkos::initialize(Kokkos::InitializationSettings().set_device_id(ordinal));
#else
  Kokkos::InitArguments arguments;
  arguments.device_id = ordinal;
  Kokkos::initialize(arguments);
#endif
}

}  // namespace

ComputeSession::ComputeSession(const MpiSession& mpi, int& argc, char** argv) : mpi_(mpi) {
  if (device::kPresent) return;
  Kokkos::initialize(argc, argv);
  is_started_ = true;
  set_gemm_threads(Exec::concurrency());
}

ComputeSession::~ComputeSession() {
  if (!is_started_) return;
  Profile::instance().clear();
  release_gemm();
  Kokkos::finalize();
  device::close();
}

void ComputeSession::start(const Config& config) {
  if (!device::kPresent) return;
  const Comm& world = mpi_.world();
  if (!is_started_) {
    std::vector<std::string> buses;
    run_agreed(world, [&] { buses = device::buses(); });
    const DeviceChoice choice = choose_device(world, mpi_.host(), buses, config.grid.share_devices);
    run_agreed(world, [&] { device::open(choice.ordinal); });
    device_.description = device::describe();
    device_.sharers = choice.sharers;
    start_kokkos_on(choice.ordinal);
    is_started_ = true;
  }
  device::set_tuned_kernels(config.numerics.kernels == Kernels::tuned);
  device_.transport = open_transport(config.grid, world).words;
}

}  // namespace espalier
