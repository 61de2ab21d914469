// SPDX-License-Identifier: Apache-2.0
// The folder of a run: deck.toml, metrics.jsonl, tokenizer/, model.h5, report.html, checkpoints/.
#pragma once

#include <memory>
#include <string>

#include "core/folder_lock.hpp"

namespace espalier {

struct RunFolder {
  std::string path;
  std::string deck() const { return path + "/deck.toml"; }
  std::string metrics() const { return path + "/metrics.jsonl"; }
  std::string ranks() const { return path + "/ranks.txt"; }
  std::string tokenizer() const { return path + "/tokenizer"; }  // a folder
  std::string model() const { return path + "/model.h5"; }
  std::string checkpoints() const { return path + "/checkpoints"; }
};

/// Takes the lock of a run folder. Errors  as FolderLock
std::unique_ptr<FolderLock> lock_run_folder(const RunFolder& folder);

/// What to do about a run that the folder holds already.
enum class Existing { refuse, overwrite, resume };

/// Whether the run in it came to its end: it left a model, or says so in its metrics.
bool is_finished_run(const RunFolder& folder);

/// Makes the folder where there is none. Errors  LaunchError with what to do
void make_run_folder(const RunFolder& folder);

/// Takes a folder that holds no run. One that does is refused, unless `existing` says to overwrite
/// (the files and checkpoints of the old run are removed, and nothing else) or to resume (all
/// stay). Errors  LaunchError with what to do
void take_run_folder(const RunFolder& folder, Existing existing);

}  // namespace espalier
