// SPDX-License-Identifier: Apache-2.0
// The folder of a run's checkpoints: which are whole, how a new one becomes visible, which are
// kept. One process (rank 0) works in it; the state files themselves are others' work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"

namespace espalier {

/// "step-0000000010": ten digits, more where they do not do.
std::string checkpoint_name(int64_t step);

constexpr const char* kManifestFile = "manifest.json";

struct CheckpointEntry {
  int64_t step = 0;
  std::string path;             // the folder
  std::string fault;            // what is wrong with it; empty: whole
  CheckpointManifest manifest;  // meaningful only where the fault is not the manifest's
  bool is_verified = false;     // all checksums were found right once

  bool is_whole() const { return fault.empty(); }
};

/// What retention keeps, of the whole checkpoints: the newest keep_last of them (at least one),
/// those whose step is a multiple of keep_every (0: none for that), the newest healthy one, and the
/// newest one both verified and healthy. Damaged ones count for nothing; they are removed once a
/// whole one is newer than they are, and stay as evidence until then.
struct Retention {
  int64_t keep_last = 2, keep_every = 0;
};

enum class PruneMode { remove, dry_run };

/// The checkpoints of one run.
///
/// Collective  no: one process calls it. Other ranks see what it did once it told them so.
/// Errors      DataError with path, reason and remedy: a disk that is full or read-only, rights
/// Kills       test_point() stands before each action: save.manifest, save.rename, save.latest,
///             save.retention, save.begin before the folder is made, and save.swap while a
///             checkpoint of the same step stands aside
class CheckpointStore {
 public:
  /// `root` is RUN/checkpoints. Nothing is created.
  explicit CheckpointStore(std::string root);

  const std::string& root() const { return root_; }

  /// Every checkpoint, newest first; also damaged ones (no manifest or a bad one, a state file
  /// missing or of another size), with their fault. Contents of state files are not read here.
  std::vector<CheckpointEntry> list() const;

  /// One checkpoint: "auto" (the newest whole one), a step ("10"), or a name ("step-0000000010").
  /// One that was named is returned even if it is damaged: look at its fault.
  /// Errors  DataError that lists what there is
  CheckpointEntry find(const std::string& what) const;

  /// The name that the file `latest` holds; empty where there is none.
  std::string latest() const;

  /// ROOT/.step-N.part, which the state files of a new checkpoint are written to.
  std::string part_of(int64_t step) const;

  /// Makes the root and an empty part_of(step), removing the remains of an earlier attempt. Returns
  /// its path.
  std::string begin(int64_t step);

  /// After the state files are written and flushed on all ranks: writes the manifest into the
  /// folder, renames the folder to its name and moves `latest`. A checkpoint of the same step is
  /// replaced: it steps aside as .step-N.old and is removed once the new one has its name.
  /// Errors  also a state file that is missing or has another size than the manifest says
  void publish(int64_t step, const CheckpointManifest& manifest);

  /// Removes the folder of an attempt that failed. Never throws.
  void abandon(int64_t step) noexcept;

  /// At the start of a run, under its lock: removes what a killed process left (.part, .removed),
  /// brings an .old back where no whole successor took its place, and sets `latest` right.
  void clean();

  /// When a run goes on from `step`: checkpoints of later steps, whose steps will be done again,
  /// get out of the way of "auto" as superseded-step-N; they stay on disk until somebody removes
  /// them. Returns the new names.
  std::vector<std::string> set_aside_after(int64_t step);

  /// Removes what `retention` does not keep, oldest first. Returns the names of what is, or by
  /// dry_run would be, removed.
  std::vector<std::string> prune(const Retention& retention, PruneMode mode);

  /// Notes in the checkpoint's folder that all its checksums were right. State files and manifest
  /// are not touched. A manifest that changes afterwards makes the note void.
  void mark_verified(int64_t step);

 private:
  std::string path_of(const std::string& name) const { return root_ + "/" + name; }
  CheckpointEntry examine(int64_t step, const std::string& path) const;
  void remove_folder(const std::string& name);
  void restore_old(const std::string& name);
  void move_latest(const std::string& name);

  std::string root_;
};

}  // namespace espalier
