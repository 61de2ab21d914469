// SPDX-License-Identifier: Apache-2.0
// Patterns walked name by name; fnmatch(3) decides about one name.
#include "corpus/source/path_pattern.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace espalier {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code);
}

class Matcher {
 public:
  explicit Matcher(const std::string& pattern) : pattern_(pattern) {
    for (const fs::path& name : pattern_.relative_path()) {
      if (!name.empty()) names_.push_back(name.string());  // a slash at the end gives an empty one
    }
  }

  std::set<std::string> run() {
    walk(pattern_.root_path(), 0);
    return std::move(found_);
  }

 private:
  // Matches the names from number `at` on below a folder, which is empty for the present one.
  void walk(const fs::path& folder, size_t at) {
    if (at == names_.size()) {
      found_.insert(folder.string());
      return;
    }
    const std::string& name = names_[at];
    if (name == "**") {
      walk_all(folder, at);
    } else if (!is_pattern(name)) {
      std::error_code code;
      if (fs::exists(fs::symlink_status(folder / name, code))) walk(folder / name, at + 1);
    } else if (const fs::path place = folder.empty() ? "." : folder; is_folder(place)) {
      for (const std::string& there : names_in(place)) {
        if (::fnmatch(name.c_str(), there.c_str(), FNM_PERIOD) != 0) continue;
        if (at + 1 == names_.size() || is_folder(folder / there)) walk(folder / there, at + 1);
      }
    }
  }

  void walk_all(const fs::path& folder, size_t at) {
    const fs::path place = folder.empty() ? "." : folder;
    if (!is_folder(place) || !entered_.insert({fs::canonical(place).string(), at}).second) return;
    walk(at + 1 == names_.size() ? place : folder, at + 1);
    for (const std::string& there : names_in(place)) {
      if (there[0] != '.' && is_folder(folder / there)) walk_all(folder / there, at);
    }
  }

  fs::path pattern_;
  std::vector<std::string> names_;
  std::set<std::string> found_;
  std::set<std::pair<std::string, size_t>> entered_;  // by **, so that loops of links end
};

}  // namespace

bool is_pattern(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos;
}

std::vector<std::string> match_pattern(const std::string& pattern) {
  const std::set<std::string> found = Matcher(pattern).run();
  return {found.begin(), found.end()};
}

}  // namespace espalier
