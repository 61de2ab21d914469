// SPDX-License-Identifier: Apache-2.0
#include "commands/run_folder.hpp"

#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace espalier {

namespace fs = std::filesystem;

std::unique_ptr<FolderLock> lock_run_folder(const RunFolder& folder) {
  return std::make_unique<FolderLock>(folder.path, "the run folder",
                                      "choose another run.directory");
}

bool is_finished_run(const RunFolder& folder) {
  if (fs::exists(folder.model())) return true;
  std::ifstream metrics(folder.metrics());
  std::string line, last;
  while (std::getline(metrics, line))
    if (!line.empty()) last = line;
  return last.rfind("{\"kind\":\"end\",\"reason\":\"finished\"", 0) == 0;
}

void make_run_folder(const RunFolder& folder) {
  std::error_code error;
  fs::create_directories(folder.path, error);
  if (error || !fs::is_directory(folder.path))
    throw LaunchError(
        fmt::format("cannot make the run folder {} ({}); set run.directory to a place "
                    "that can be written",
                    folder.path, error ? error.message() : "it is not a folder"));
}

void take_run_folder(const RunFolder& folder, Existing existing) {
  if (existing == Existing::resume) return;
  std::error_code error;
  for (const std::string& file :
       {folder.metrics(), folder.model(), folder.deck(), folder.ranks(), folder.checkpoints(),
        folder.tokenizer(), folder.path + "/report.html", folder.path + "/samples.txt"}) {
    if (!fs::exists(file)) continue;
    if (existing == Existing::refuse)
      throw LaunchError(fmt::format(
          "the run folder {} already holds a run ({}); go on with it by --resume, choose another "
          "run.directory, or give --overwrite to replace it",
          folder.path, fs::path(file).filename().string()));
    fs::remove_all(file, error);
    if (error)
      throw LaunchError(fmt::format("cannot remove {} of the old run ({})", file, error.message()));
  }
}

}  // namespace espalier
