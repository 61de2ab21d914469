// SPDX-License-Identifier: Apache-2.0
// Going on from a checkpoint: which one, what the deck changed since, and the state itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/state_file.hpp"
#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "commands/training_session.hpp"

namespace espalier {

/// A checkpoint that a run may go on from.
struct ResumePoint {
  std::string folder;
  CheckpointManifest manifest;
};

/// What --resume may find: the newest first, several where damaged ones may be passed over.
struct ResumeChoice {
  std::vector<ResumePoint> points;  // empty: nothing to go on from, the run begins anew
  bool is_own = true;               // checkpoints of this very run folder
};

/// `what`: "auto" (the newest whole checkpoint of the run folder; none is no error), the folder of
/// a checkpoint, or that of another run (its newest). Rank 0 looks; a newer one that is damaged
/// stops the run, or is passed over with a warning as checkpoint.on_damage says.
///
/// Collective  over all ranks
/// Errors      DataError: nothing there, or damaged, with what to do
ResumeChoice find_resume_points(const Launch& launch, const std::string& what,
                                const RunFolder& folder);

/// What a checkpoint holds besides the tensors, and where it was.
struct ResumedState {
  ResumePoint point;
  TrainingProgress progress;
  RunHistory history;
  double seconds = 0.0;  // of reading
};

/// Reads the first of the points that is sound into the session: every rank its own parts, then all
/// checksums are compared. Says which settings changed since.
///
/// Collective  over all ranks
/// Errors      DataError when the first is damaged and checkpoint.on_damage is stop, or none is
///             sound; then the session's content is undefined
ResumedState resume_session(const Launch& launch, const ResumeChoice& choice,
                            TrainingSession& session);

}  // namespace espalier
