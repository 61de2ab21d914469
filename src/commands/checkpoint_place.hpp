// SPDX-License-Identifier: Apache-2.0
// What a user names when he says PATH or RUN to espalier checkpoint: the folder of a run, of a
// checkpoint, or a file alone.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint_store.hpp"

namespace espalier {

/// One checkpoint, or one file that stands for it.
struct CheckpointPlace {
  std::string path;                // as it is called in what is printed
  std::vector<std::string> files;  // the state files that are there
  bool is_checkpoint = false;      // a folder with a manifest; else a file alone
  CheckpointEntry entry;           // of a checkpoint
  std::string root;                // of a checkpoint: the folder that it lies in
};

enum class Choose { newest, newest_whole, all };

/// The checkpoints that `path` stands for: a file is itself, the folder of a checkpoint too, and of
/// a run those that are chosen (`all`: newest first).
/// Errors  DataError for a path that is neither, or a run without a checkpoint
std::vector<CheckpointPlace> find_places(const std::string& path, Choose choose);

/// The same as rank 0 sees it, on all ranks: while a run goes on, each might see something else.
/// Where there are several ranks, all of the manifest but its state_digest is left out.
/// Collective  over all ranks
std::vector<CheckpointPlace> agree_on_places(const std::string& path, Choose choose);

}  // namespace espalier
