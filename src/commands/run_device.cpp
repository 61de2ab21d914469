// SPDX-License-Identifier: Apache-2.0
#include "commands/run_device.hpp"

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "grid/agreement.hpp"
#include "tensor/gemm.hpp"

namespace espalier {
namespace {

std::string text(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

// Keys that ask for what only a device does.
std::string idle_keys(const Config& config) {
  std::string keys;
  const auto add = [&](bool is_asked, const char* key) {
    if (is_asked) keys += (keys.empty() ? "" : ", ") + std::string(key);
  };
  add(config.numerics.kernels != Kernels::tuned, "numerics.kernels");
  add(config.numerics.graphs, "numerics.graphs");
  add(config.grid.share_devices, "grid.share_devices");
  add(config.grid.device_transport != DeviceTransport::automatic, "grid.device_transport");
  add(config.grid.staging_mib != GridConfig{}.staging_mib, "grid.staging_mib");
  return keys;
}

// A micro-batch that is reduced over data-parallel ranks while it runs is no graph.
std::string graphs(const Blueprint& b) {
  if (!b.config.numerics.graphs) return "";
  if (b.config.grid.data_parallel == 1) return ", micro-batches as graphs";
  return b.micro_batches > 1
             ? ", micro-batches as graphs but the last of a step"
             : "; no graphs: the one micro-batch of a rank is reduced while it runs";
}

}  // namespace

RunDevice::RunDevice(const Launch& launch)
    : launch_(launch), device_(compute_session().device()), health_(device_.description.bus) {
  if (!device::kPresent) return;
  const int64_t own = health_.why_not().empty() ? 1 : 0;
  has_health_ = launch_.grid.world().all_reduce(own, ReduceOp::max) > 0;
}

void RunDevice::settle() {
  if (!device::kPresent) return;
  const device::Memory memory = device::memory();
  // The library's workspaces are among what is allocated. Of ranks that share a device, each has a
  // context there.
  settled_ = device::allocated_bytes();
  const int64_t taken = (memory.total - memory.free) / device_.sharers;
  runtime_bytes_ = launch_.grid.world().all_reduce(std::max(settled_, taken), ReduceOp::max);
  device::reset_peak();
}

MemoryAssumptions RunDevice::assume(MemoryAssumptions host) const {
  if (!device::kPresent) return host;
  host.computes_in = MemorySpace::device;
  host.device_runtime_bytes = runtime_bytes_;
  return host;
}

void RunDevice::require_room(const MemoryBill& bill) const {
  if (!device::kPresent) return;
  run_agreed(launch_.grid.world(), [&] {
    const device::Memory memory = device::memory();
    const std::string why =
        why_too_large(bill, {memory.free, memory.total, device_.sharers}, launch_.blueprint.config);
    if (!why.empty()) throw LaunchError(fmt::format("{}: {}", rank_name(), why));
  });
}

MemoryBill RunDevice::settle_and_require_room() {
  const Config& config = launch_.blueprint.config;
  measure_gemm_rate(config.numerics.compute_type, 64, 0.0);  // the library's workspaces
  settle();
  const MemoryBill bill =
      make_memory_bill(make_heaviest_blueprint(config, launch_.grid.world().size()), assume({}));
  require_room(bill);
  return bill;
}

DeviceUse RunDevice::use() const {
  if (!device::kPresent) return {};
  const int64_t before = runtime_bytes_ - settled_;
  return {before + device::allocated_bytes(), before + device::peak_allocated_bytes()};
}

void RunDevice::describe(RunRecord& record, const MemoryBill& bill) const {
  for (const MemoryItem& item : bill.items) {
    NamedSizes& sizes =
        item.space == MemorySpace::host ? record.predicted_memory : record.predicted_device_memory;
    sizes.emplace_back(item.name, item.bytes);
  }
  if (!device::kPresent) return;
  const device::Description& d = device_.description;
  record.device = fmt::format(
      "{} ({}), {}, {}", d.name, d.bus, text(d.total_bytes),
      device_.sharers == 1 ? "one a rank" : fmt::format("shared by {} ranks", device_.sharers));
  record.transport = device_.transport;
  record.kernels =
      launch_.blueprint.config.numerics.kernels == Kernels::tuned ? "tuned" : "portable";
}

void RunDevice::print(const RunRecord& record) const {
  const Config& config = launch_.blueprint.config;
  if (!device::kPresent) {
    const std::string keys = idle_keys(config);
    if (!keys.empty())
      info("device       none: this build computes on the host; without meaning here: {}", keys);
    return;
  }
  const device::Description& d = device_.description;
  info("device       {}", record.device);
  info("             compute capability {}.{}, driver for CUDA {}.{}, runtime {}.{}", d.major,
       d.minor, d.driver / 1000, d.driver / 10 % 100, d.runtime / 1000, d.runtime / 10 % 100);
  info("transport    {}", record.transport);
  info("kernels      {}{}", record.kernels, graphs(launch_.blueprint));
  if (!health_.why_not().empty()) info("health       no numbers of the GPU: {}", health_.why_not());
}

std::optional<HealthSummary> RunDevice::watch(int64_t step) {
  const Config& config = launch_.blueprint.config;
  if (!has_health_ || step % config.monitor.log_interval != 0) return std::nullopt;
  const Comm& world = launch_.grid.world();
  const HealthSample own = health_.sample();
  std::vector<int64_t> numbers(static_cast<size_t>(kHealthNumbers * world.size()));
  world.all_gather(own.numbers.data(), kHealthNumbers, numbers.data());
  world.take_stats();  // no part of the next step
  if (world.rank() != 0) return std::nullopt;
  std::vector<HealthSample> samples(static_cast<size_t>(world.size()));
  for (size_t r = 0; r < samples.size(); ++r)
    std::copy_n(numbers.begin() + static_cast<std::ptrdiff_t>(r) * kHealthNumbers, kHealthNumbers,
                samples[r].numbers.begin());
  HealthSummary summary = summarise_health(step, samples);
  for (const std::string& news :
       warnings_.judge(summary, [&](int rank) { return launch_.grid.name_of(rank); }))
    warn("{}", news);
  if (summary.devices == 0) return std::nullopt;
  return summary;
}

}  // namespace espalier
