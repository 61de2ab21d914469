// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/build_folder.hpp"

#include <filesystem>
#include <system_error>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "corpus/store/store_manifest.hpp"

namespace espalier {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestText = int64_t{1} << 32;
constexpr const char* kLockName = ".lock";

// Runs an operation of std::filesystem and turns its complaint into ours.
template <class F>
void operate(const std::string& path, const char* action, const F& operation) {
  std::error_code code;
  operation(code);
  if (code) fail_file(path, action, code.value());
}

void make_folder(const std::string& path) {
  operate(path, "make the folder",
          [&](std::error_code& code) { fs::create_directories(path, code); });
}

void remove_tree(const std::string& path) {
  operate(path, "remove it", [&](std::error_code& code) { fs::remove_all(path, code); });
}

bool exists(const std::string& path) {
  std::error_code code;
  return fs::exists(fs::symlink_status(path, code));
}

std::string replaced(const BuildFolder& folder) {
  return folder.output + ".replaced";
}

void check_output(const BuildFolder& folder, bool may_replace) {
  const std::string &output = folder.output, old = replaced(folder);
  if (exists(old) && !exists(manifest_path(old)))
    throw LaunchError(fmt::format(
        "{}: is in the way of the build, and no store; move it, or choose another build.output",
        old));
  if (!exists(output)) return;
  if (!fs::is_directory(output))
    throw LaunchError(fmt::format("{}: is no folder; choose another build.output", output));
  if (exists(manifest_path(output))) {
    if (may_replace) return;
    const std::string remains =
        exists(old) ? fmt::format(" ({} is the one before it: remove it)", old) : "";
    throw LaunchError(
        fmt::format("{}: a token store is there already{}; choose another build.output, or give "
                    "--overwrite to replace it",
                    output, remains));
  }
  if (!fs::is_empty(output))
    throw LaunchError(
        fmt::format("{}: a folder with other files, which a store must not replace; choose another "
                    "build.output",
                    output));
}

// All but the lock, which is held; first what says how far the build is.
void empty_folder(const BuildFolder& folder) {
  const std::string building = folder.building();
  remove_tree(manifest_path(building));
  remove_tree(folder.plan());
  for (const auto& entry : fs::directory_iterator(building))
    if (entry.path().filename() != kLockName) remove_tree(entry.path().string());
}

// Removes a store so that what is left of it after a kill is still known as one.
void remove_store(const std::string& store) {
  if (!exists(store)) return;
  for (const auto& entry : fs::directory_iterator(store))
    if (entry.path().filename() != kManifestName) remove_tree(entry.path().string());
  remove_tree(store);
}

// What a process that was killed was writing; the lock says that it does so no more.
void remove_partial_files(const std::string& building) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(building)) {
    const std::string name = entry.path().filename().string();
    const bool is_partial = name.find(".partial-") != std::string::npos ||
                            (name.size() > 5 && name.compare(name.size() - 5, 5, ".part") == 0);
    if (is_partial && entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  for (const std::string& path : paths) remove_tree(path);
}

// Whether a build that was killed at once has written nothing but its lock and folders.
bool is_untouched(const std::string& building) {
  for (const auto& entry : fs::recursive_directory_iterator(building))
    if (!entry.is_directory() && entry.path().filename() != kLockName) return false;
  return true;
}

// Why what lies in the folder is not this build; empty: it is.
std::vector<std::string> other_build(const BuildFolder& folder, const BuildPlan& plan) {
  if (is_broken_for_test("corpus_plan")) return {};
  if (exists(folder.plan()))
    return plan_differences(read_text_file(folder.plan(), kLargestText), encode_plan(plan));
  if (!exists(manifest_path(folder.building()))) return {"nothing says what it is of"};
  const StoreManifest manifest = read_manifest(folder.building());
  if (manifest.details.value("plan", "") == plan_fingerprint(plan)) return {};
  return {"it is whole, but of another deck or other files"};
}

// Compares what lies in the locked folder with the plan. Errors  LaunchError
BuildState compare_build(const BuildFolder& folder, const BuildPlan& plan, bool may_replace) {
  const std::string building = folder.building();
  if (is_untouched(building)) return BuildState::fresh;
  const std::vector<std::string> differences = other_build(folder, plan);
  if (differences.empty())  // the manifest comes last
    return exists(manifest_path(building)) ? BuildState::whole : BuildState::unfinished;
  if (!may_replace)
    throw LaunchError(fmt::format(
        "{}: holds an unfinished build of something else; finish that one, remove the folder, or "
        "give --overwrite to discard it. What differs:{}",
        building, list_faults(differences)));
  empty_folder(folder);
  return BuildState::fresh;
}

TakenFolder take_folder(const BuildFolder& folder, const BuildPlan& plan, bool may_replace) {
  check_output(folder, may_replace);
  const std::string building = folder.building();
  const bool is_build = exists(building + "/" + kLockName) || exists(folder.plan()) ||
                        exists(manifest_path(building));
  if (exists(building) && !is_build && !fs::is_empty(building))
    throw LaunchError(fmt::format(
        "{}: is in the way of the build, and of no other one; move it, or choose another "
        "build.output",
        building));
  make_folder(building);
  TakenFolder taken;
  taken.lock = std::make_unique<FolderLock>(building, "the folder", "choose another build.output");
  check_output(folder, may_replace);  // again: who held the lock may have made it
  if (!is_broken_for_test("corpus_partial")) remove_partial_files(building);
  taken.state = compare_build(folder, plan, may_replace);
  if (taken.state == BuildState::whole) return taken;
  make_folder(folder.work());
  // Before anything else: a file without a plan is of an unknown build.
  if (taken.state == BuildState::fresh) write_text_file(folder.plan(), encode_plan(plan));
  for (const std::string& root : {building, folder.raw()})
    for (const char* stream : {"/train", "/validation"}) make_folder(root + stream);
  return taken;
}

}  // namespace

TakenFolder take_build_folder(const BuildFolder& folder, const BuildPlan& plan, bool may_replace) {
  try {
    return take_folder(folder, plan, may_replace);
  } catch (const fs::filesystem_error& error) {
    fail_file(error.path1().string(), "look at it", error.code().value());
  }
}

void publish_store(const BuildFolder& folder) {
  const std::string building = folder.building(), old = replaced(folder);
  if (exists(folder.work()))  // the plan last: until then it says what is whole here
    for (const auto& entry : fs::directory_iterator(folder.work()))
      if (entry.path() != folder.plan()) remove_tree(entry.path().string());
  remove_tree(folder.work());
  for (const char* stream : {"/train", "/validation"}) {  // one may have no document
    const std::string path = building + stream;
    if (exists(path) && fs::is_empty(path)) remove_tree(path);
  }
  flush_folder(building);
  test_point("corpus_rename");
  remove_store(old);
  if (exists(manifest_path(folder.output))) rename_durably(folder.output, old);
  test_point("corpus_exchange");
  remove_tree(building + "/" + kLockName);
  rename_durably(building, folder.output);
  remove_store(old);
}

}  // namespace espalier
