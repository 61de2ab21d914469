// SPDX-License-Identifier: Apache-2.0
// espalier bench kernels: the rate of every kernel of a step on one device.
#include <fmt/format.h>

#include <memory>

#include "commands/bench_kernels.hpp"
#include "commands/spmd_context.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "device/device.hpp"
#include "tensor/gemm.hpp"

namespace espalier {
namespace {

struct KernelRequest {
  double seconds = 0.1;
  std::string type = "bf16", scale = "full", out;
};

// Bytes read and bytes written, as every rate of memory here.
void bench_copy(KernelTable& table) {
  const int64_t bytes = table.sizes().copy_bytes;
  table.heading("copy on the device, the reference of memory-bound kernels");
  const Buffer<float> from = normal_numbers<float>("bench.from", bytes / 4);
  const Buffer<float> to("bench.to", bytes / 4);
  const KernelRow& row = table.measure(
      "copy", "copy of " + format_bytes(static_cast<double>(bytes)), RateKind::bytes_beside_goal,
      2.0 * static_cast<double>(from.bytes()), 1,
      [&](int64_t) { device::copy(to.data(), from.data(), from.bytes()); }, KernelForms::tuned);
  // The best: nothing is to look better than it is because a copy was disturbed.
  const double rate = row.work / row.tuned.best;
  table.set_copy_rate(rate);
  table.summary("copy_rate", rate * 1e-9, "GB/s", "read and written");
}

template <class T>
void bench_groups(KernelTable& table) {
  bench_copy(table);
  bench_products<T>(table);
  bench_attention<T>(table);
  bench_memory_bound<T>(table);
  bench_flat_buffers<T>(table);
  table.summarise_memory_bound();
}

int bench_kernels(const KernelRequest& request) {
  if constexpr (!device::kPresent)
    throw LaunchError(
        "bench kernels measures a device, and this build computes on the host; build with the "
        "preset cuda (docs/gpu.md), or take bench gemm and bench step, which measure the host");
  const int ranks = mpi_session().world().size();
  if (ranks != 1)
    throw LaunchError(fmt::format(
        "bench kernels measures one device, and {} ranks were started; start it on one", ranks));
  compute_session().start({});
  const device::Description d = compute_session().device().description;
  info("device       {} ({}), compute capability {}.{}", d.name, d.bus, d.major, d.minor);
  info("gemm         {}", gemm_library());
  info("times        medians of launches on the device, {} s a line; portable: without cuda/",
       request.seconds);
  KernelTable table(KernelSizes(request.scale == "tiny" ? BenchScale::tiny : BenchScale::full),
                    request.seconds, request.out);
  if (request.type == "fp16")
    bench_groups<fp16>(table);
  else
    bench_groups<bf16>(table);
  return 0;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, Action& action) {
  const auto r = std::make_shared<KernelRequest>();
  CLI::App* verb =
      bench.add_subcommand("kernels", "The kernels of a step on one device, one by one");
  verb->add_option("--seconds", r->seconds, "Seconds of each line (default 0.1)")
      ->check(CLI::Range(0.0, 60.0));
  verb->add_option("--type", r->type, "Element type (default bf16)")
      ->check(CLI::IsMember({"bf16", "fp16"}));
  verb->add_option("--scale", r->scale, "Sizes: full, or tiny for a trial (default full)")
      ->check(CLI::IsMember({"full", "tiny"}));
  verb->add_option("--out", r->out, "A file for the lines, one JSON object each");
  verb->callback([r, &action] { action = [r] { return bench_kernels(*r); }; });
}

}  // namespace espalier
