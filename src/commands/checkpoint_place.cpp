// SPDX-License-Identifier: Apache-2.0
#include "commands/checkpoint_place.hpp"

#include <filesystem>
#include <sstream>

#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

CheckpointPlace place_of(const CheckpointEntry& entry, const std::string& root) {
  CheckpointPlace place;
  place.path = entry.path;
  place.is_checkpoint = true;
  place.entry = entry;
  place.root = root;
  std::error_code ignored;
  for (const StateFileEntry& file : entry.manifest.files)
    if (fs::is_regular_file(entry.path + "/" + file.name, ignored))
      place.files.push_back(entry.path + "/" + file.name);
  return place;
}

std::vector<CheckpointPlace> places_in(const std::string& root, Choose choose) {
  const CheckpointStore store(root);
  if (choose == Choose::newest_whole) return {place_of(store.find("auto"), root)};
  std::vector<CheckpointPlace> places;
  for (const CheckpointEntry& entry : store.list()) {
    places.push_back(place_of(entry, root));
    if (choose == Choose::newest) break;
  }
  if (places.empty())
    throw DataError(root + ": there is no checkpoint; has the run saved one yet?");
  return places;
}

}  // namespace

std::vector<CheckpointPlace> find_places(const std::string& path, Choose choose) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    CheckpointPlace file;
    file.path = path;
    file.files = {path};
    return {file};
  }
  if (!fs::is_directory(path, ignored))
    throw DataError(fmt::format(
        "{}: {}; name a run, a checkpoint or its state file", path,
        fs::exists(path, ignored) ? "neither a file nor a folder" : "no such file or folder"));
  if (fs::is_directory(RunFolder{path}.checkpoints(), ignored))
    return places_in(RunFolder{path}.checkpoints(), choose);
  // The folder of one checkpoint. Without a trailing slash its last part is its name.
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  const std::string root = folder.has_parent_path() ? folder.parent_path().string() : ".";
  for (const CheckpointEntry& entry : CheckpointStore(root).list())
    if (checkpoint_name(entry.step) == name) return {place_of(entry, root)};
  if (name == "checkpoints") return places_in(path, choose);
  throw DataError(path + ": neither a run with checkpoints nor the folder of a checkpoint");
}

// Sent as texts with NULs between, which neither paths nor faults can hold. The manifest, which may
// be large, stays where every rank can read it.
std::vector<CheckpointPlace> agree_on_places(const std::string& path, Choose choose) {
  const Comm& world = mpi_session().world();
  if (world.size() == 1) return find_places(path, choose);
  std::string text;
  const auto put = [&](const std::string& field) { text += field + '\0'; };
  if (world.rank() == 0)
    for (const CheckpointPlace& p : find_places(path, choose)) {
      put(p.path);
      put(p.root);
      put(p.entry.fault);
      put(p.entry.manifest.state_digest);
      put(std::to_string(p.is_checkpoint ? p.entry.step : -1));
      put(std::to_string(p.files.size()));
      for (const std::string& file : p.files) put(file);
    }
  std::istringstream fields(broadcast_text(world, text, 0));
  const auto get = [&] {
    std::string field;
    std::getline(fields, field, '\0');
    return field;
  };
  std::vector<CheckpointPlace> places;
  while (fields.peek() != std::istringstream::traits_type::eof()) {
    CheckpointPlace p;
    p.path = p.entry.path = get();
    p.root = get();
    p.entry.fault = get();
    p.entry.manifest.state_digest = get();
    p.entry.step = std::stoll(get());
    p.is_checkpoint = p.entry.step >= 0;
    for (int64_t files = std::stoll(get()); files > 0; --files) p.files.push_back(get());
    places.push_back(std::move(p));
  }
  return places;
}

}  // namespace espalier
