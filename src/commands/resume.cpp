// SPDX-License-Identifier: Apache-2.0
#include "commands/resume.hpp"

#include <filesystem>

#include "checkpoint/checkpoint_store.hpp"
#include "commands/deck_changes.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "grid/agreement.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPassOver =
    "restore it from a copy, name an older one with --resume PATH, or let the run pass over it "
    "with checkpoint.on_damage = \"previous\"";

// Newest first. Damaged ones are an error unless an older one may take their place.
std::vector<ResumePoint> whole_ones(const CheckpointStore& store, OnDamage on_damage) {
  std::vector<ResumePoint> points;
  for (const CheckpointEntry& entry : store.list()) {
    if (entry.is_whole()) {
      points.push_back({entry.path, entry.manifest});
    } else if (points.empty()) {
      if (on_damage == OnDamage::stop)
        throw DataError(fmt::format("{}: {}; {}", entry.path, entry.fault, kPassOver));
      warn("{}: {}; it is passed over", entry.path, entry.fault);
    }
  }
  return points;
}

// On rank 0.
ResumeChoice look_for_points(const std::string& what, const RunFolder& folder, OnDamage on_damage) {
  std::error_code error;
  ResumeChoice choice;
  if (what == "auto") {
    CheckpointStore store(folder.checkpoints());
    store.clean();
    choice.points = whole_ones(store, on_damage);
    if (choice.points.empty() && !store.list().empty())
      throw DataError(
          fmt::format("{}: none of its checkpoints is whole; start anew with "
                      "--overwrite, or restore one from a copy",
                      store.root()));
    return choice;
  }
  if (!fs::is_directory(what, error))
    throw DataError(
        fmt::format("{}: there is no such folder; name a checkpoint "
                    "(RUN/checkpoints/step-...), a run, or auto",
                    what));
  const fs::path path = fs::canonical(what, error);  // through links, no slash at its end
  // RUN/checkpoints means RUN.
  const bool is_store = path.filename() == fs::path(RunFolder{"x"}.checkpoints()).filename();
  const RunFolder other{is_store ? path.parent_path().string() : what};
  if (fs::is_directory(other.checkpoints(), error)) {
    choice.points = whole_ones(CheckpointStore(other.checkpoints()), on_damage);
    choice.is_own = fs::equivalent(other.path, folder.path, error);
    if (choice.points.empty())
      throw DataError(fmt::format("{}: holds no whole checkpoint; see espalier checkpoint list {}",
                                  other.checkpoints(), what));
    return choice;
  }
  const CheckpointEntry entry =
      CheckpointStore(path.parent_path().string()).find(path.filename().string());
  if (!entry.is_whole()) throw DataError(fmt::format("{}: {}; {}", what, entry.fault, kPassOver));
  choice.points.push_back({entry.path, entry.manifest});
  choice.is_own = fs::equivalent(path.parent_path(), folder.checkpoints(), error);
  return choice;
}

void tell_changes(const Launch& launch, const CheckpointManifest& manifest,
                  const std::string& folder) {
  const DeckResult before = parse_deck(manifest.deck, folder + ":deck", {}, manifest.ranks);
  if (!before.ok()) {
    warn(
        "the deck that wrote {} cannot be read by this program ({}); what changed since is not "
        "known",
        folder, before.faults.front().text());
    return;
  }
  for (const DeckChange& change : compare_decks(before.config, launch.blueprint.config)) {
    if (change.kind == ChangeKind::arithmetic)
      warn("changed since the checkpoint: {}", change.text());
    else
      info("  changed    {}", change.text());
  }
  const std::string build = build_description();
  if (manifest.build == build) return;
  if (launch.blueprint.config.numerics.reproducible)
    warn(
        "changed since the checkpoint: the build, {} before, now {}; numerics.reproducible "
        "promises the same bits within one build, not across them",
        manifest.build, build);
  else
    info("  changed    build: {} before, now {}", manifest.build, build);
}

ResumedState load(const Launch& launch, const ResumePoint& point, TrainingSession& session) {
  const double start = monotonic_seconds();
  const Comm& world = launch.grid.world();
  StateReader reader(point.folder, point.manifest.files, &world);
  reader.require_those_of(point.manifest.step, point.manifest.state_digest);
  const int64_t steps = launch.blueprint.config.run.steps;
  if (point.manifest.step > steps)
    throw DeckError(
        fmt::format("{} is of step {}, but run.steps = {}; raise run.steps, or name an "
                    "earlier checkpoint with --resume PATH",
                    point.folder, point.manifest.step, steps));
  const auto rows = tensor_rows(make_parameter_table(launch.blueprint.config));
  const StateTypes types = session.state_types();
  reader.require(rows, types.moments);
  // What is converted on the way in has other bytes in memory than the checksums are of.
  const bool converts = reader.types().parameters != types.parameters;
  if (converts) reader.verify();
  run_agreed(world, [&] { reader.read(session.state_targets()); });
  if (converts)
    info("  weights    {} in the checkpoint, {} in this run: {}",
         stored_type_name(reader.types().parameters), stored_type_name(types.parameters),
         types.parameters == StoredType::bf16 ? "rounded to nearest" : "the same values");
  else
    reader.require_intact(session.state(), world);
  session.resume(reader.progress());
  return {point, reader.progress(), reader.history(), monotonic_seconds() - start};
}

}  // namespace

ResumeChoice find_resume_points(const Launch& launch, const std::string& what,
                                const RunFolder& folder) {
  const Comm& world = launch.grid.world();
  ResumeChoice choice;
  run_agreed(world, [&] {
    if (world.rank() == 0)
      choice = look_for_points(what, folder, launch.blueprint.config.checkpoint.on_damage);
  });
  auto count = static_cast<int64_t>(choice.points.size());
  int64_t numbers[2] = {count, choice.is_own ? 1 : 0};
  world.broadcast(numbers, 2, 0);
  choice.points.resize(static_cast<size_t>(numbers[0]));
  choice.is_own = numbers[1] != 0;
  for (ResumePoint& point : choice.points) {
    point.folder = broadcast_text(world, point.folder, 0);
    const std::string manifest =
        broadcast_text(world, world.rank() == 0 ? manifest_json(point.manifest) : std::string(), 0);
    point.manifest = parse_manifest(manifest, point.folder + "/" + kManifestFile);
  }
  return choice;
}

ResumedState resume_session(const Launch& launch, const ResumeChoice& choice,
                            TrainingSession& session) {
  const OnDamage on_damage = launch.blueprint.config.checkpoint.on_damage;
  for (const ResumePoint& point : choice.points) {
    try {
      ResumedState state = load(launch, point, session);
      info("resume       {}: step {} of {}, {} tokens, read in {}", point.folder,
           state.progress.step, launch.blueprint.config.run.steps,
           format_count(static_cast<double>(state.progress.consumed_tokens)),
           format_duration(state.seconds));
      tell_changes(launch, point.manifest, point.folder);
      return state;
    } catch (const DataError& e) {
      // The same on every rank.
      if (on_damage == OnDamage::stop || &point == &choice.points.back())
        throw DataError(
            fmt::format("cannot resume: {}\n{}", e.what(),
                        on_damage == OnDamage::stop ? kPassOver : "no older checkpoint is left"));
      warn("{}\n{} is passed over", e.what(), point.folder);
    }
  }
  throw InternalError("resumed from no checkpoint");
}

}  // namespace espalier
