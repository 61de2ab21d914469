// SPDX-License-Identifier: Apache-2.0
// espalier checkpoint list and prune; the other verbs have files of their own.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint_store.hpp"
#include "commands/checkpoint_place.hpp"
#include "commands/checkpoint_verbs.hpp"
#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "core/error.hpp"
#include "core/folder_lock.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

struct PruneRequest {
  std::string run;
  std::optional<int64_t> keep_last, keep_every;
  bool is_dry_run = false;
};

// The checkpoints of RUN, whose folder must be there.
CheckpointStore open_store(const std::string& run) {
  if (!std::filesystem::is_directory(RunFolder{run}.checkpoints()))
    throw DataError(
        fmt::format("{}: holds no checkpoints (there is no folder {}); name the folder "
                    "of a run that saved some",
                    run, RunFolder{run}.checkpoints()));
  return CheckpointStore(RunFolder{run}.checkpoints());
}

// "8 (pp 2, tp 4)": axes of extent 1 say nothing.
std::string ranks_text(const CheckpointManifest& m) {
  std::string axes;
  for (const auto& [axis, extent] : m.grid)
    if (extent > 1) axes += fmt::format("{}{} {}", axes.empty() ? "" : ", ", axis, extent);
  return axes.empty() ? fmt::format("{}", m.ranks) : fmt::format("{} ({})", m.ranks, axes);
}

std::string state_text(const CheckpointEntry& entry) {
  if (!entry.is_whole()) return "DAMAGED: " + entry.fault;
  std::string text = entry.is_verified ? "verified" : "whole";
  if (!entry.manifest.is_healthy) text += ", UNHEALTHY (loss not finite or step skipped)";
  return text;
}

int list_checkpoints(const std::string& run) {
  if (mpi_session().rank() != 0) return 0;
  const CheckpointStore store = open_store(run);
  const std::vector<CheckpointEntry> entries = store.list();
  if (entries.empty()) {
    info("{}: no checkpoint yet", store.root());
    return 0;
  }
  info("  {:>12}  {:<20}  {:<24}  {:>10}  {:>10}  {}", "step", "saved", "ranks", "size", "loss",
       "state");
  const std::string latest = store.latest();
  for (const CheckpointEntry& entry : entries) {
    const CheckpointManifest& m = entry.manifest;
    const char* mark = checkpoint_name(entry.step) == latest ? "*" : " ";
    if (m.files.empty())  // the manifest could not be read
      info("{} {:>12}  {:<20}  {:<24}  {:>10}  {:>10}  {}", mark, entry.step, "-", "-", "-", "-",
           state_text(entry));
    else
      info("{} {:>12}  {:<20}  {:<24}  {:>10}  {:>10.6g}  {}", mark, entry.step, m.saved,
           ranks_text(m), format_bytes(static_cast<double>(m.state_bytes())), m.loss,
           state_text(entry));
  }
  info("* the latest");
  return 0;
}

// What the deck of the newest whole checkpoint says, unless the command line says it.
Retention retention_of(const PruneRequest& request, const CheckpointStore& store) {
  Retention r;
  if (!request.keep_last || !request.keep_every) {
    const CheckpointEntry newest = store.find("auto");
    const std::string name = newest.path + "/" + kManifestFile + ":deck";
    const DeckResult deck = parse_deck(newest.manifest.deck, name);
    if (!deck.ok())
      throw DataError(
          fmt::format("the deck in {} cannot be read ({}); give --keep-last and "
                      "--keep-every",
                      newest.path, deck.faults.front().text()));
    r = {deck.config.checkpoint.keep_last, deck.config.checkpoint.keep_every};
  }
  r.keep_last = request.keep_last.value_or(r.keep_last);
  r.keep_every = request.keep_every.value_or(r.keep_every);
  return r;
}

int prune(const PruneRequest& request) {
  if (mpi_session().rank() != 0) return 0;
  CheckpointStore store = open_store(request.run);
  const Retention retention = retention_of(request, store);
  std::vector<std::string> names;
  if (request.is_dry_run) {
    names = store.prune(retention, PruneMode::dry_run);
  } else {
    const auto lock = lock_run_folder({request.run});
    store.clean();
    names = store.prune(retention, PruneMode::remove);
  }
  info("{}: keeps the last {}{}", store.root(), retention.keep_last,
       retention.keep_every > 0 ? fmt::format(" and every {} steps", retention.keep_every) : "");
  for (const std::string& name : names)
    info("  {} {}", request.is_dry_run ? "would remove" : "removed", name);
  if (names.empty()) info("  nothing to remove");
  return 0;
}

void add_list(CLI::App& verb, Action& action) {
  const auto run = std::make_shared<std::string>();
  CLI::App* list = verb.add_subcommand("list", "The checkpoints of a run, newest first");
  list->add_option("RUN", *run, "Folder of the run")->required();
  list->callback([run, &action] { action = [run] { return list_checkpoints(*run); }; });
}

void add_prune(CLI::App& verb, Action& action) {
  const auto r = std::make_shared<PruneRequest>();
  CLI::App* prune_verb = verb.add_subcommand("prune", "Remove checkpoints that need not be kept");
  prune_verb->add_option("RUN", r->run, "Folder of the run")->required();
  prune_verb->add_option("--keep-last", r->keep_last, "The newest so many stay (default: the deck)")
      ->check(at_least(1));
  prune_verb
      ->add_option("--keep-every", r->keep_every,
                   "Multiples of so many steps stay, 0: none (default: the deck)")
      ->check(at_least(0));
  prune_verb->add_flag("--dry-run", r->is_dry_run, "Say what would be removed, and remove nothing");
  prune_verb->callback([r, &action] { action = [r] { return prune(*r); }; });
}

}  // namespace

// CLI11's own ranges print the largest double.
CLI::Validator at_least(int64_t least) {
  const auto check = [least](std::string& text) {
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(text.c_str(), &end, 10);
    const bool is_right = errno == 0 && end != text.c_str() && *end == '\0' && value >= least;
    return is_right ? std::string()
                    : fmt::format("{} is not an integer of at least {}", text, least);
  };
  return {check, fmt::format("at least {}", least), ""};
}

void add_checkpoint(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("checkpoint", "Look after the checkpoints of a run");
  verb->require_subcommand(1);
  add_list(*verb, action);
  add_checkpoint_inspect(*verb, action);
  add_checkpoint_verify(*verb, action);
  add_checkpoint_diff(*verb, action);
  add_prune(*verb, action);
}

}  // namespace espalier
