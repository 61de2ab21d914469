// SPDX-License-Identifier: Apache-2.0
#include "commands/spmd_context.hpp"

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "commands/measured_stages.hpp"
#include "commands/training_session.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "device/device.hpp"

namespace espalier {
namespace {

// Ranks that read different decks would make different grids and hang, so this comes first.
void require_same_deck(const Comm& world, const DeckResult& deck, const std::string& path) {
  std::string content = deck.ok() ? effective_deck(deck) : "";
  for (const Fault& fault : deck.faults) content += fault.text();
  const uint64_t hash = hash_name(content);
  const uint64_t least = world.all_reduce(hash, ReduceOp::min);
  if (least != world.all_reduce(hash, ReduceOp::max))
    throw LaunchError(
        fmt::format("the ranks did not read the same deck from {}; put it where all "
                    "hosts see the same file, and give all ranks the same --set",
                    path));
}

// A schedule that would hang must not start.
void require_sound_schedule(const Schedule& schedule) {
  const ScheduleCheck check = check_schedule(schedule);
  if (!check.ok())
    throw InternalError(fmt::format("the pipeline schedule is not sound: {} ({} faults)",
                                    check.faults.front(), check.faults.size()));
}

std::string& name_on_grid() {
  static std::string name;
  return name;
}

}  // namespace

std::string rank_name() {
  if (!name_on_grid().empty()) return name_on_grid();
  return fmt::format("rank {} on {}", mpi_session().rank(), mpi_session().host());
}

Launch launch(const std::string& deck, const std::vector<std::string>& overrides) {
  MpiSession& session = mpi_session();
  DeckRequest request;
  request.path = deck;
  request.overrides = overrides;
  request.ranks = session.size();
  DeckResult result = read_deck(request);
  require_same_deck(session.world(), result, deck);
  result = require_sound(std::move(result));
  if (fill_measured_stages(result.config)) result.origins["grid.stage_blocks"] = "measured times";
  compute_session().start(result.config);
  Grid grid = Grid::create(session, result.config.grid);
  name_on_grid() = grid.name_of(session.rank());
  const GridShape& at = grid.place();
  Blueprint blueprint =
      make_blueprint(result.config, session.size(), {at.pipeline, at.data, at.tensor});
  if (grid.pp().size() > 1) require_sound_schedule(blueprint.schedule);
  return {std::move(result), std::move(grid), std::move(blueprint)};
}

std::string broadcast_text(const Comm& comm, const std::string& text, int root) {
  int64_t size = static_cast<int64_t>(text.size());
  comm.broadcast(&size, 1, root);
  std::string copy = text;
  copy.resize(static_cast<size_t>(size));
  if (size > 0) comm.broadcast(copy.data(), size, root);
  return copy;
}

std::string build_description() {
#if defined(__clang__)
  const char* compiler = "clang";
#else
  const char* compiler = "gcc";
#endif
  return fmt::format("{}, {} {}, Kokkos {}.{}.{} {}, {}", ESPALIER_VERSION, compiler, __VERSION__,
                     KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100,
                     Kokkos::DefaultExecutionSpace::name(),
                     device::kPresent ? "for GPUs" : "for the host");
}

}  // namespace espalier
