// SPDX-License-Identifier: Apache-2.0
// espalier train DECK
#include <memory>

#include "commands/trainer.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

struct TrainRequest {
  std::string deck;
  std::vector<std::string> overrides;
  bool overwrite = false;
};

int train(const TrainRequest& request) {
  const Launch started = launch(request.deck, request.overrides);
  const Comm& world = started.grid.world();
  // One rank touches the folder; its refusal must reach all, so that all leave in good order.
  std::string failure;
  if (world.rank() == 0) {
    try {
      open_run_folder(started.blueprint.config.run.directory,
                      request.overwrite ? Existing::overwrite : Existing::refuse);
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  failure = broadcast_text(world, failure, 0);
  if (!failure.empty()) throw LaunchError(failure);
  Trainer trainer(started, RunFolder{started.blueprint.config.run.directory});
  return trainer.run();
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  const auto r = std::make_shared<TrainRequest>();
  CLI::App* verb = app.add_subcommand("train", "Train the model of a deck");
  verb->add_option("DECK", r->deck, "The deck (TOML)")->required();
  add_overrides(*verb, r->overrides);
  verb->add_flag("--overwrite", r->overwrite, "Replace a run that is in the run folder already");
  verb->callback([r, &action] { action = [r] { return train(*r); }; });
}

}  // namespace espalier
