// SPDX-License-Identifier: Apache-2.0
// The folder of a run: deck.toml, metrics.jsonl, model.h5, report.html.
#pragma once

#include <string>

namespace espalier {

struct RunFolder {
  std::string path;
  std::string deck() const { return path + "/deck.toml"; }
  std::string metrics() const { return path + "/metrics.jsonl"; }
  std::string ranks() const { return path + "/ranks.txt"; }
  std::string model() const { return path + "/model.h5"; }
};

enum class Existing { refuse, overwrite };

/// Makes the folder, or takes an existing one that holds no run. A folder that does is refused,
/// unless `existing` says to overwrite: then the files of the old run are removed, and no others.
/// Errors  LaunchError with what to do
RunFolder open_run_folder(const std::string& path, Existing existing);

/// Writes text to a file, aside and renamed. Errors: DataError.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace espalier
