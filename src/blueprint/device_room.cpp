// SPDX-License-Identifier: Apache-2.0
// Whether a bill fits into a device, and what to do where it does not.
#include <fmt/format.h>

#include <algorithm>

#include "blueprint/blueprint.hpp"
#include "core/units.hpp"

namespace espalier {
namespace {

std::string text(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

// Only what this deck leaves to change.
std::string remedies(const Config& config, int sharers) {
  std::string all;
  const auto add = [&](const std::string& remedy) { all += all.empty() ? remedy : ", " + remedy; };
  if (sharers > 1) add("let fewer ranks share it");
  if (config.batch.micro_batch_size > 1)
    add(fmt::format("lower batch.micro_batch_size = {}", config.batch.micro_batch_size));
  const auto tokens = static_cast<double>(config.batch.micro_batch_size * config.batch.seq_length);
  const auto token_bytes =
      static_cast<double>(config.model.vocab_size * element_bytes(config.numerics.compute_type));
  constexpr double kFewMib = 128;  // of logits; less would be slow
  if (std::min(config.numerics.logits_mib, tokens * token_bytes / 1048576) > kFewMib)
    add(fmt::format("lower numerics.logits_mib = {}", config.numerics.logits_mib));
  if (config.grid.recompute == Recompute::none)
    add("set grid.recompute = \"selective\" or \"full\"");
  else if (config.grid.recompute == Recompute::selective)
    add("set grid.recompute = \"full\"");
  if (config.grid.zero_stage < 3)
    add(fmt::format("raise grid.zero_stage = {} on several data-parallel ranks",
                    config.grid.zero_stage));
  add("cut the model over more ranks (grid.tensor_parallel, grid.pipeline_parallel)");
  return all;
}

}  // namespace

std::string why_too_large(const MemoryBill& bill, const DeviceRoom& room, const Config& config) {
  int64_t needed = 0;
  std::string items;
  for (const MemoryItem& item : bill.items) {
    if (item.space != MemorySpace::device) continue;
    const bool runs_already = item.name == kDeviceRuntimeItem;
    if (!runs_already) needed += item.bytes;
    items += fmt::format("\n  {:<26} {:>12}{}", item.name, text(item.bytes),
                         runs_already ? "  (taken already)" : "");
  }
  if (needed * room.sharers <= room.free) return "";
  const std::string shared =
      room.sharers == 1 ? "" : fmt::format(" by each of the {} ranks that share it", room.sharers);
  return fmt::format(
      "{} of device memory are needed{}, but {} of {} are free; {}. The bill of a rank:{}",
      text(needed), shared, text(room.free), text(room.total), remedies(config, room.sharers),
      items);
}

}  // namespace espalier
