// SPDX-License-Identifier: Apache-2.0
// espalier plan: what a deck will need on a number of ranks, from the blueprint alone.
#include <algorithm>
#include <memory>

#include "commands/blueprint_text.hpp"
#include "commands/measured_stages.hpp"
#include "commands/overrides.hpp"
#include "commands/plan_schedule.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

struct PlanRequest {
  DeckRequest deck;
  bool parameters = false;
  bool schedule = false;
  bool actions = false;
  bool device = false;
};

int plan_schedule(const Config& config, ActionLists lists) {
  const bool measured =
      config.grid.stage_balance == StageBalance::measured && config.grid.pipeline_parallel > 1;
  const ModelCosts costs =
      measured ? measured_costs(config, read_measured_stages(config.grid.stage_times))
               : model_costs(config);
  print_schedule(config, costs, stage_ranges(config, costs.layers, costs.embedding, costs.head),
                 lists);
  return 0;
}

void print_checkpoint(const Blueprint& b) {
  info(
      "checkpoint   {} in all: a weight of {} bytes and two moments of {} for each of {} "
      "parameters",
      format_bytes(static_cast<double>(checkpoint_bytes(b))), master_bytes(b.config),
      moment_bytes(b.config), format_count(static_cast<double>(b.parameters.parameter_count)));
}

// What ZeRO shares out, by parameter of the whole model and rank: the largest over stages.
void print_state(const Blueprint& b, const MemoryBill& bill) {
  int64_t state = 0;
  for (const MemoryItem& item : bill.items)
    if (item.name == "parameters (master)" || item.name == "parameters (compute copy)" ||
        item.name == "gradients" || item.name == "optimizer state")
      state += item.bytes;
  const auto held = static_cast<double>(b.parameters.flat_size);
  info(
      "state        {:.2f} bytes for each of the {} parameters of this rank's part (ZeRO {}, {} "
      "shards)",
      static_cast<double>(state) / held, format_count(held), b.config.grid.zero_stage,
      b.zero_shards);
}

int plan(const PlanRequest& request) {
  DeckResult deck = require_deck(request.deck);
  if (request.schedule)
    return plan_schedule(deck.config, request.actions ? ActionLists::shown : ActionLists::hidden);
  fill_measured_stages(deck.config);
  const GridConfig& grid = deck.config.grid;
  const int64_t others = grid.tensor_parallel * grid.pipeline_parallel * grid.context_parallel;
  const int64_t ranks =
      request.deck.ranks.value_or(std::max<int64_t>(1, grid.data_parallel) * others);
  const Blueprint heaviest = make_heaviest_blueprint(deck.config, ranks);
  MemoryAssumptions assumptions;
  if (request.device) assumptions.computes_in = MemorySpace::device;
  info("ranks        {}: pipeline {} x data {} x tensor {}", ranks, grid.pipeline_parallel,
       heaviest.data_parallel, grid.tensor_parallel);
  print_blueprint(heaviest);
  if (grid.pipeline_parallel > 1)
    for (int64_t p = 0; p < grid.pipeline_parallel; ++p) {
      const Blueprint b = make_blueprint(deck.config, ranks, {p, 0, 0});
      info("stage rank {:<3} {:>12} a rank, {} layers", p,
           format_bytes(static_cast<double>(
               make_memory_bill(b, assumptions).total(assumptions.computes_in))),
           b.held_layers());
    }
  const MemoryBill bill = make_memory_bill(heaviest, assumptions);
  print_memory_bill(bill);
  print_state(heaviest, bill);
  print_checkpoint(heaviest);
  if (request.parameters) print_parameters(heaviest);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* verb = app.add_subcommand("plan", "Size, work and memory of a deck; allocates nothing");
  verb->add_option("DECK", request->deck.path, "The deck (TOML)")->required();
  verb->add_option("--ranks", request->deck.ranks,
                   "Ranks to plan for (default: what the axes of the deck need)");
  add_overrides(*verb, request->deck.overrides);
  verb->add_flag("--parameters", request->parameters, "List every parameter");
  verb->add_flag("--device", request->device,
                 "The memory bill of ranks that compute on a device each, not on the host");
  CLI::Option* schedule = verb->add_flag("--schedule", request->schedule,
                                         "Show the pipeline instead: stages, order, slots, bubble");
  verb->add_flag("--actions", request->actions, "With --schedule: list what every rank does")
      ->needs(schedule);
  verb->callback([request, &action] { action = [request] { return plan(*request); }; });
}

}  // namespace espalier
