// SPDX-License-Identifier: Apache-2.0
// The order of the steps is the point of this file: at every instant either the old checkpoint or
// the new one has its name and is whole, so that a kill anywhere loses neither.
#include "checkpoint/checkpoint_store.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/test_hooks.hpp"
#include "core/units.hpp"

namespace espalier {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLatestFile = "latest";
constexpr const char* kVerifiedFile = "verified";
constexpr const char* kPart = ".part";
constexpr const char* kOld = ".old";
constexpr const char* kRemoved = ".removed";
constexpr const char* kSuperseded = "superseded-";
constexpr int64_t kLargestNote = 4096;

std::string hidden_name(int64_t step, const char* suffix) {
  return "." + checkpoint_name(step) + suffix;
}

/// The step of a checkpoint's name, or -1.
int64_t step_of(const std::string& name) {
  constexpr size_t kPrefix = 5;  // "step-"
  if (name.compare(0, kPrefix, "step-") != 0 || name.size() > kPrefix + 18) return -1;
  const std::string digits = name.substr(kPrefix);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
  const int64_t step = std::stoll(digits);
  return checkpoint_name(step) == name ? step : -1;
}

/// The step of ".step-N" and this suffix, or -1.
int64_t hidden_step_of(const std::string& name, const std::string& suffix) {
  if (name.size() <= suffix.size() + 1 || name[0] != '.') return -1;
  if (name.compare(name.size() - suffix.size(), std::string::npos, suffix) != 0) return -1;
  return step_of(name.substr(1, name.size() - suffix.size() - 1));
}

/// Names in a folder, sorted; none where it does not exist.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error == std::errc::no_such_file_or_directory) return names;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail_file(folder, "list the folder", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail_file(path, "remove it", error.value());
}

/// What is wrong with the state files that a manifest lists; empty if each is there in its size.
std::string files_fault(const std::string& folder, const CheckpointManifest& manifest) {
  for (const StateFileEntry& file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return fmt::format("{} is missing", file.name);
    if (!fs::is_regular_file(status)) return fmt::format("{} is not a regular file", file.name);
    const auto bytes = fs::file_size(path, error);
    if (error) return fmt::format("{}: {}", file.name, error.message());
    if (bytes != static_cast<uintmax_t>(file.bytes))
      return fmt::format("{} has {} bytes instead of {}", file.name, bytes, file.bytes);
  }
  return "";
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("step-{:010}", step);
}

CheckpointStore::CheckpointStore(std::string root) : root_(std::move(root)) {}

CheckpointEntry CheckpointStore::examine(int64_t step, const std::string& path) const {
  CheckpointEntry entry;
  entry.step = step;
  entry.path = path;
  const std::string manifest = path + "/" + kManifestFile;
  if (!exists(manifest)) {
    entry.fault = fmt::format("{} is missing", kManifestFile);
    return entry;
  }
  try {
    const std::string text = read_text_file(manifest, kLargestManifest);
    entry.manifest = parse_manifest(text, manifest);
    if (entry.manifest.step != step)
      entry.fault = fmt::format("{} is of step {}", kManifestFile, entry.manifest.step);
    else
      entry.fault = files_fault(path, entry.manifest);
    const std::string note = path + "/" + kVerifiedFile;
    entry.is_verified =
        exists(note) &&
        read_text_file(note, kLargestNote).find(manifest_checksum(text) + "\n") == 0;
  } catch (const DataError& e) {
    // It is printed behind the folder's path.
    const std::string fault = e.what(), prefix = path + "/";
    entry.fault =
        fault.compare(0, prefix.size(), prefix) == 0 ? fault.substr(prefix.size()) : fault;
  }
  return entry;
}

std::vector<CheckpointEntry> CheckpointStore::list() const {
  std::vector<CheckpointEntry> entries;
  for (const std::string& name : names_in(root_))
    if (const int64_t step = step_of(name); step >= 0)
      entries.push_back(examine(step, path_of(name)));
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return entries;
}

CheckpointEntry CheckpointStore::find(const std::string& what) const {
  std::vector<CheckpointEntry> entries = list();
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : entries) {
    const std::string name = checkpoint_name(entry.step);
    const bool is_asked =
        what == "auto" ? entry.is_whole() : what == name || what == std::to_string(entry.step);
    if (is_asked) return entry;
    names.push_back(entry.is_whole() ? name : fmt::format("{} (damaged: {})", name, entry.fault));
  }
  const std::string there =
      names.empty() ? "it holds no checkpoint" : fmt::format("it holds {}", fmt::join(names, ", "));
  throw DataError(what == "auto"
                      ? fmt::format("{}: there is no whole checkpoint; {}", root_, there)
                      : fmt::format("{}: there is no checkpoint {}; {}", root_, what, there));
}

std::string CheckpointStore::latest() const {
  const std::string path = path_of(kLatestFile);
  if (!exists(path)) return "";
  std::string name = read_text_file(path, kLargestNote);
  name.resize(name.find_last_not_of('\n') + 1);
  return name;
}

void CheckpointStore::move_latest(const std::string& name) {
  write_text_file(path_of(kLatestFile), name + "\n");
}

std::string CheckpointStore::part_of(int64_t step) const {
  return path_of(hidden_name(step, kPart));
}

std::string CheckpointStore::begin(int64_t step) {
  ESPALIER_REQUIRE(step >= 0, "a checkpoint of step {}", step);
  test_point("save.begin");
  std::error_code error;
  const bool is_new = fs::create_directories(root_, error);
  if (error) fail_file(root_, "make the folder", error.value());
  if (is_new)
    flush_folder(fs::path(root_).parent_path().empty() ? "."
                                                       : fs::path(root_).parent_path().string());
  const std::string part = part_of(step);
  remove_tree(part);
  if (::mkdir(part.c_str(), 0777) != 0) fail_file(part, "make the folder", errno);
  return part;
}

void CheckpointStore::publish(int64_t step, const CheckpointManifest& manifest) {
  ESPALIER_REQUIRE(manifest.step == step, "the manifest of step {} for step {}", manifest.step,
                   step);
  const std::string name = checkpoint_name(step), path = path_of(name);
  const std::string part = part_of(step);
  const std::string old = hidden_name(step, kOld);
  const std::string fault = files_fault(part, manifest);
  if (!fault.empty())
    throw DataError(fmt::format("{}: {}; the checkpoint is not published", part, fault));
  test_point("save.manifest");
  write_text_file(part + "/" + kManifestFile, manifest_json(manifest));
  test_point("save.rename");
  if (exists(path)) {
    if (exists(path_of(old))) remove_tree(path_of(old));
    rename_durably(path, path_of(old));
    test_point("save.swap");
  }
  rename_durably(part, path);
  test_point("save.latest");
  move_latest(name);
  if (exists(path_of(old))) remove_tree(path_of(old));
}

void CheckpointStore::abandon(int64_t step) noexcept {
  std::error_code ignored;
  fs::remove_all(part_of(step), ignored);
}

// An .old is there because its process died before the successor was in place, or just after. The
// whole one of the two keeps the name.
void CheckpointStore::restore_old(const std::string& name) {
  const int64_t step = hidden_step_of(name, kOld);
  const std::string old = path_of(name), path = path_of(checkpoint_name(step));
  if (exists(path) && !examine(step, path).is_whole() && examine(step, old).is_whole())
    remove_folder(checkpoint_name(step));
  if (exists(path))
    remove_tree(old);
  else
    rename_durably(old, path);
}

void CheckpointStore::clean() {
  if (!exists(root_)) return;
  for (const std::string& name : names_in(root_)) {
    if (hidden_step_of(name, kOld) >= 0) restore_old(name);
    if (hidden_step_of(name, kPart) >= 0 || hidden_step_of(name, kRemoved) >= 0)
      remove_tree(path_of(name));
    if (name == std::string(kLatestFile) + kPart) remove_tree(path_of(name));
  }
  for (const CheckpointEntry& entry : list()) {
    if (!entry.is_whole()) continue;
    if (latest() != checkpoint_name(entry.step)) move_latest(checkpoint_name(entry.step));
    break;
  }
}

std::vector<std::string> CheckpointStore::set_aside_after(int64_t step) {
  std::vector<std::string> names;
  std::string last;
  for (const CheckpointEntry& entry : list()) {
    if (entry.step <= step) {
      last = last.empty() && entry.is_whole() ? checkpoint_name(entry.step) : last;
      continue;
    }
    std::string name = kSuperseded + checkpoint_name(entry.step);
    for (int n = 2; exists(path_of(name)); ++n)
      name = fmt::format("{}{}.{}", kSuperseded, checkpoint_name(entry.step), n);
    rename_durably(entry.path, path_of(name));
    names.push_back(name);
  }
  if (!names.empty() && !last.empty()) move_latest(last);
  return names;
}

// A folder that is half removed would look like a damaged checkpoint, so it loses its name first.
void CheckpointStore::remove_folder(const std::string& name) {
  const std::string removed = path_of("." + name + kRemoved);
  if (exists(removed)) remove_tree(removed);
  rename_durably(path_of(name), removed);
  remove_tree(removed);
}

namespace {

/// Whether each of the entries (newest first) stays.
std::vector<bool> choose_kept(const std::vector<CheckpointEntry>& entries, const Retention& r) {
  std::vector<bool> keep(entries.size(), false);
  int64_t whole = 0;
  bool has_healthy = false, has_verified = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const CheckpointEntry& e = entries[i];
    if (!e.is_whole()) {
      keep[i] = whole == 0;
      continue;
    }
    keep[i] = whole < std::max<int64_t>(r.keep_last, 1) ||
              (r.keep_every > 0 && e.step % r.keep_every == 0);
    ++whole;
    if (!e.manifest.is_healthy) continue;
    keep[i] = keep[i] || !has_healthy || (e.is_verified && !has_verified);
    has_healthy = true;
    has_verified = has_verified || e.is_verified;
  }
  return keep;
}

}  // namespace

std::vector<std::string> CheckpointStore::prune(const Retention& retention, PruneMode mode) {
  const std::vector<CheckpointEntry> entries = list();
  const std::vector<bool> keep = choose_kept(entries, retention);
  std::vector<std::string> names;
  for (size_t i = entries.size(); i-- > 0;)
    if (!keep[i]) names.push_back(checkpoint_name(entries[i].step));
  if (mode == PruneMode::dry_run) return names;
  test_point("save.retention");
  for (const std::string& name : names) remove_folder(name);
  return names;
}

void CheckpointStore::mark_verified(int64_t step) {
  const std::string folder = path_of(checkpoint_name(step));
  const std::string manifest = folder + "/" + kManifestFile;
  const std::string digits = manifest_checksum(read_text_file(manifest, kLargestManifest));
  write_text_file(folder + "/" + kVerifiedFile, digits + "\n" + utc_now() + "\n");
}

}  // namespace espalier
