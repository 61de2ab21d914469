// SPDX-License-Identifier: Apache-2.0
#include "commands/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"

namespace espalier {

namespace fs = std::filesystem;

RunFolder open_run_folder(const std::string& path, Existing existing) {
  const RunFolder folder{path};
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path))
    throw LaunchError(
        fmt::format("cannot make the run folder {} ({}); set run.directory to a place "
                    "that can be written",
                    path, error ? error.message() : "it is not a folder"));
  for (const std::string& file : {folder.metrics(), folder.model(), folder.deck(), folder.ranks(),
                                  path + "/report.html", path + "/samples.txt"}) {
    if (!fs::exists(file)) continue;
    if (existing == Existing::refuse)
      throw LaunchError(
          fmt::format("the run folder {} already holds a run ({}); choose another "
                      "run.directory, or give --overwrite to replace it",
                      path, fs::path(file).filename().string()));
    fs::remove(file, error);
    if (error)
      throw LaunchError(fmt::format("cannot remove {} of the old run ({})", file, error.message()));
  }
  return folder;
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << text;
    out.flush();
    if (!out) throw DataError(fmt::format("cannot write {} ({})", part, std::strerror(errno)));
  }
  std::error_code error;
  fs::rename(part, path, error);
  if (error)
    throw DataError(fmt::format("cannot rename {} to {} ({})", part, path, error.message()));
}

}  // namespace espalier
