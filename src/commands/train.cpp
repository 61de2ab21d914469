// SPDX-License-Identifier: Apache-2.0
// espalier train DECK
#include <memory>

#include "commands/overrides.hpp"
#include "commands/trainer.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

struct TrainRequest {
  std::string deck;
  std::vector<std::string> overrides;
  StartRequest start;
};

int train(const TrainRequest& request) {
  const Launch started = launch(request.deck, request.overrides);
  Trainer trainer(started, request.start);
  return trainer.run();
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  const auto r = std::make_shared<TrainRequest>();
  CLI::App* verb = app.add_subcommand("train", "Train the model of a deck");
  verb->add_option("DECK", r->deck, "The deck (TOML)")->required();
  add_overrides(*verb, r->overrides);
  verb->add_flag("--overwrite", r->start.overwrite,
                 "Replace a run that is in the run folder already, with its checkpoints");
  verb->add_option("--resume", r->start.resume,
                   "Go on from a checkpoint: auto (the newest whole one of the run folder; none: "
                   "begin), or the folder of a checkpoint or of another run")
      ->expected(0, 1)
      ->default_str("auto");
  verb->callback([r, &action] { action = [r] { return train(*r); }; });
}

}  // namespace espalier
