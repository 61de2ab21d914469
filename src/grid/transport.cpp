// SPDX-License-Identifier: Apache-2.0
#include "grid/transport.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/error.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

TransportSettings& settings() {
  static TransportSettings s;
  return s;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of("\r\n"));
}

// "MPICH Version:      4.0.2 ..." and "Open MPI v4.1.4, package: ..." cut to name and number.
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  ESPALIER_MPI(MPI_Get_library_version(text, &length));
  std::string name = first_line(std::string(text, static_cast<size_t>(length)));
  const std::string word = "Version:";
  const size_t at = name.find(word);
  if (at != std::string::npos) name.erase(at, word.size());
  name = name.substr(0, name.find(','));
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  for (char& c : name)
    if (is_blank(c)) c = ' ';
  name.erase(std::unique(name.begin(), name.end(),
                         [&](char a, char b) { return is_blank(a) && is_blank(b); }),
             name.end());
  while (!name.empty() && is_blank(name.back())) name.pop_back();
  return name;
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string(value) == "1";
}

template <class F>
F* find_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

bool library_reports_gpu() {
  constexpr int kCuda = 0;  // MPIX_GPU_SUPPORT_CUDA
  if (auto* const query = find_function<int(int, int*)>("MPIX_GPU_query_support")) {
    int is_supported = 0;
    if (query(kCuda, &is_supported) == MPI_SUCCESS && is_supported != 0) return true;
  }
  if (auto* const query = find_function<int()>("MPIX_Query_cuda_support")) return query() != 0;
  return false;
}

}  // namespace

const TransportSettings& transport_settings() {
  return settings();
}

void set_transport(const TransportSettings& s) {
  ESPALIER_REQUIRE(s.staging_bytes > 0, "messages cut into portions of {} bytes", s.staging_bytes);
  settings() = s;
}

MpiSupport ask_mpi_for_gpu_support() {
  MpiSupport support;
  support.library = library_name();
  support.reports_gpu = library_reports_gpu();
#ifdef ESPALIER_EMULATED_DEVICE
  // Memory that the host may touch is all that a pretended device needs.
  support.reports_gpu = is_set("ESPALIER_EMULATOR_OPEN_MEMORY");
#endif
  // Cray's library answers for its build, but refuses device memory unless this is set.
  const bool is_cray = support.library.find("CRAY") != std::string::npos;
  if (is_cray && !is_set("MPICH_GPU_SUPPORT_ENABLED")) {
    support.reports_gpu = false;
    support.remark = "MPICH_GPU_SUPPORT_ENABLED is not 1";
  }
  return support;
}

TransportChoice choose_transport(DeviceTransport requested, const MpiSupport& support) {
  const std::string remark = support.remark.empty() ? "" : " (" + support.remark + ")";
  switch (requested) {
    case DeviceTransport::staged:
      return {Transport::staged, "staged through pinned memory, as grid.device_transport asks"};
    case DeviceTransport::gpu_aware:
      if (!support.reports_gpu)
        throw LaunchError(fmt::format(
            "grid.device_transport = gpu_aware, but {} does not report GPU support{}; load an MPI "
            "that was built with CUDA (Cray MPICH: link its gtl library and set "
            "MPICH_GPU_SUPPORT_ENABLED=1), or set grid.device_transport = staged",
            support.library, remark));
      break;
    case DeviceTransport::automatic: break;
  }
  if (support.reports_gpu)
    return {Transport::gpu_aware, fmt::format("GPU-aware MPI ({} says so)", support.library)};
  return {Transport::staged,
          fmt::format("staged through pinned memory: {} does not report GPU support{}",
                      support.library, remark)};
}

TransportChoice open_transport(const GridConfig& config, const Comm& world) {
  MpiSupport support = ask_mpi_for_gpu_support();
  const bool everywhere = world.all_reduce(int32_t{support.reports_gpu}, ReduceOp::min) != 0;
  if (support.reports_gpu && !everywhere) support.remark = "on some hosts";
  support.reports_gpu = everywhere;
  TransportChoice choice = choose_transport(config.device_transport, support);
  // Whole pages, so that copies begin where pages do.
  constexpr double kPage = 4096.0, kMib = 1024.0 * 1024.0;
  const double pages = std::max(std::ceil(config.staging_mib * kMib / kPage), 1.0);
  set_transport({choice.transport, static_cast<int64_t>(pages * kPage)});
  return choice;
}

}  // namespace espalier
