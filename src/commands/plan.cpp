// SPDX-License-Identifier: Apache-2.0
// espalier plan: what a deck will need on a number of ranks, from the blueprint alone.
#include <algorithm>
#include <memory>

#include "commands/blueprint_text.hpp"
#include "commands/overrides.hpp"
#include "commands/plan_schedule.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

struct PlanRequest {
  DeckRequest deck;
  bool parameters = false;
  bool schedule = false;
  bool actions = false;
};

int plan_schedule(const Config& config, ActionLists lists) {
  if (config.grid.stage_balance == StageBalance::measured && config.grid.stage_blocks.empty())
    throw DeckError(
        "espalier plan --schedule does not read the stage times of a run; add "
        "--set grid.stage_balance=cost, or list the blocks by grid.stage_blocks");
  print_schedule(config, model_costs(config), stage_ranges(config), lists);
  return 0;
}

int plan(const PlanRequest& request) {
  const DeckResult deck = require_deck(request.deck);
  if (request.schedule)
    return plan_schedule(deck.config, request.actions ? ActionLists::shown : ActionLists::hidden);
  const Blueprint blueprint = make_blueprint(
      deck.config,
      std::max<int64_t>(request.deck.ranks.value_or(1), deck.config.grid.data_parallel));
  print_blueprint(blueprint);
  print_memory_bill(make_memory_bill(blueprint, {}));
  if (request.parameters) print_parameters(blueprint);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* verb = app.add_subcommand("plan", "Size, work and memory of a deck; allocates nothing");
  verb->add_option("DECK", request->deck.path, "The deck (TOML)")->required();
  verb->add_option("--ranks", request->deck.ranks, "Ranks to plan for (default 1)");
  add_overrides(*verb, request->deck.overrides);
  verb->add_flag("--parameters", request->parameters, "List every parameter");
  CLI::Option* schedule = verb->add_flag("--schedule", request->schedule,
                                         "Show the pipeline instead: stages, order, slots, bubble");
  verb->add_flag("--actions", request->actions, "With --schedule: list what every rank does")
      ->needs(schedule);
  verb->callback([request, &action] { action = [request] { return plan(*request); }; });
}

}  // namespace espalier
