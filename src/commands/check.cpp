// SPDX-License-Identifier: Apache-2.0
// espalier check: all faults of a deck at once, before anything is allocated.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands/blueprint_text.hpp"
#include "commands/measured_stages.hpp"
#include "commands/overrides.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/batch_source.hpp"
#include "deck/corpus_deck.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

// What the deck asks for, in a few lines.
void print_summary(const DeckResult& result) {
  const Config& config = result.config;
  const auto origin = [&](const char* key) { return result.origins.at(key); };
  info("deck         {}", config.deck_path);
  if (config.grid.data_parallel == 0)
    info("grid         data_parallel: all ranks (give --ranks N to check a number)");
  else
    info("grid         data_parallel {} ({})", config.grid.data_parallel,
         origin("grid.data_parallel"));
  info("run          {} steps into {} ({})", config.run.steps, config.run.directory,
       origin("run.directory"));
}

// The stores and files that the deck names, as far as they are here: a deck may be written before.
ExitCode check_data(Config config) {
  if (config.data.source != DataSource::files) return ExitCode::success;
  const bool validates = config.monitor.validation_interval > 0;
  std::vector<std::string> paths = config.data.train;
  if (validates)
    paths.insert(paths.end(), config.data.validation.begin(), config.data.validation.end());
  std::error_code error;
  for (const std::string& path : paths)
    if (!std::filesystem::exists(path, error) && !std::filesystem::exists(path + ".idx", error)) {
      info("data         {} is not here yet: the data were not looked at", path);
      return ExitCode::success;
    }
  config.data.verify = VerifyData::header;
  config.data.packing = Packing::chunk;  // a plan would be written into the store
  try {
    const BatchSource train(config, Stream::train);
    if (validates) const BatchSource validation(config, Stream::validation);
    info("data         {} tokens, {:.2f} epochs in this run",
         format_count(static_cast<double>(train.tokens())), train.epochs(config.run.steps));
  } catch (const Error& fault) {
    std::fprintf(stderr, "%s\n1 fault; nothing was allocated.\n", fault.what());
    return fault.code();
  }
  return ExitCode::success;
}

int check(const DeckRequest& request) {
  const DeckResult result = read_deck(request);
  for (const Fault& warning : result.warnings) print_warning(warning.text());
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", fault_list(result.faults).c_str());
    return static_cast<int>(ExitCode::deck);
  }
  print_summary(result);
  Config config = result.config;
  fill_measured_stages(config);
  // Without --ranks and with an automatic data_parallel there is no number of ranks to plan for.
  const GridConfig& grid = config.grid;
  const int64_t ranks = request.ranks.value_or(std::max<int64_t>(1, grid.data_parallel) *
                                               grid.tensor_parallel * grid.pipeline_parallel);
  const Blueprint blueprint = make_heaviest_blueprint(config, ranks);
  print_blueprint(blueprint);
  print_memory_bill(make_memory_bill(blueprint, {}));
  const ExitCode data = check_data(config);
  if (data != ExitCode::success) return static_cast<int>(data);
  const size_t warnings = result.warnings.size();
  if (warnings == 0)
    info("no faults");
  else
    info("no faults, {} warning{}", warnings, warnings == 1 ? "" : "s");
  return static_cast<int>(ExitCode::success);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  const auto request = std::make_shared<DeckRequest>();
  CLI::App* verb = app.add_subcommand("check", "List all faults of a deck; allocates nothing");
  verb->add_option("DECK", request->path, "The deck (TOML)")->required();
  verb->add_option("--ranks", request->ranks, "Check the grid against this many ranks");
  add_overrides(*verb, request->overrides);
  verb->callback([request, &action] {
    action = [request] {
      if (!is_corpus_deck(request->path)) return check(*request);
      if (request->ranks)
        throw DeckError("check: --ranks is for training; a corpus deck goes with any number");
      return check_corpus_deck(request->path, request->overrides);
    };
  });
}

}  // namespace espalier
