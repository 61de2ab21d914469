// SPDX-License-Identifier: Apache-2.0
// espalier checkpoint verify: reads all data of checkpoints again and compares all checksums, each
// rank a share. A checkpoint passes if a run can go on from it; a file alone if its datasets do.
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/piece_cut.hpp"
#include "checkpoint/state_file.hpp"
#include "checkpoint/tensor_file.hpp"
#include "commands/checkpoint_place.hpp"
#include "commands/checkpoint_verbs.hpp"
#include "commands/spmd_context.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace espalier {
namespace {

struct VerifyRequest {
  std::vector<std::string> paths;
  Choose choose = Choose::newest;
};

using Faults = std::vector<std::string>;  // the same on all ranks

/// The first rank's text that is not empty, on all ranks. Collective.
std::string first_text(const Comm& world, const std::string& text) {
  const int first =
      world.all_reduce(int32_t{text.empty() ? world.size() : world.rank()}, ReduceOp::min);
  return first == world.size() ? "" : broadcast_text(world, text, first);
}

// A rank that cannot read its share (a bad disk) must not leave the others alone in a sum, so they
// agree before it is made.
void verify_datasets(TensorFileReader& file, Faults& faults) {
  const Comm& world = mpi_session().world();
  std::string error;
  int64_t number = 0;
  for (const auto& [name, info] : file.datasets()) {
    if (info.type == StoredType::other) {
      faults.push_back(
          fmt::format("{}: {} cannot be verified", name, stored_type_name(StoredType::other)));
      continue;
    }
    if (!info.checksum) {
      faults.push_back(name + ": has no checksum");
      continue;
    }
    if (info.type == StoredType::text) {
      try {
        file.read_text(name);
      } catch (const DataError& e) {  // thrown on all ranks
        faults.push_back(e.what());
      }
      continue;
    }
    try {
      if (error.empty()) count_share(file, name, number++, &world);
    } catch (const DataError& e) {
      error = fmt::format("{}: {}", rank_name(), e.what());
    }
  }
  error = first_text(world, error);
  if (!error.empty()) {
    faults.push_back(error);
    return;
  }
  for (const DatasetDamage& d : file.damaged_datasets()) faults.push_back(d.text());
}

/// A file alone, or one of a checkpoint that cannot be read as a whole.
Faults verify_file(const std::string& path) {
  Faults faults;
  try {
    TensorFileReader file(path, &mpi_session().world());
    verify_datasets(file, faults);
  } catch (const DataError& e) {  // a file that cannot be opened: the same on all ranks
    faults.push_back(e.what());
  }
  for (std::string& fault : faults)
    if (fault.find(path) == std::string::npos) fault = path + ": " + fault;
  return faults;
}

/// What keeps a run from going on from a checkpoint whose folder is in order, by the code that a
/// run resumes with. Adds the damaged tensors, or what stands before them.
void verify_state(const CheckpointPlace& place, Faults& faults) {
  std::vector<StateFileEntry> files;
  for (const std::string& file : place.files)
    files.push_back({file.substr(place.path.size() + 1), 0});
  StateReader state(place.path, files, &mpi_session().world());
  for (std::string& fault : state.damaged_tensors()) faults.push_back(std::move(fault));
  state.require_those_of(place.entry.step, place.entry.manifest.state_digest);
}

Faults faults_of(const CheckpointPlace& place) {
  Faults faults;
  if (!place.entry.fault.empty()) faults.push_back(place.entry.fault);
  if (place.is_checkpoint && faults.empty()) {
    std::string fault;
    try {
      verify_state(place, faults);
    } catch (const DataError& e) {
      fault = e.what();
    }
    // One rank alone may fail to read what all others read.
    fault = first_text(mpi_session().world(), fault);
    if (!fault.empty()) faults.push_back(fault);
    return faults;
  }
  for (const std::string& file : place.files) {
    const Faults alone = verify_file(file);
    faults.insert(faults.end(), alone.begin(), alone.end());
  }
  return faults;
}

/// Whether rank 0 lacks the rights to read the place: then nobody knows whether it is damaged.
bool is_forbidden(const CheckpointPlace& place) {
  const auto may_not = [](const std::string& path) {
    return ::access(path.c_str(), R_OK) != 0 && errno == EACCES;
  };
  if (place.is_checkpoint && may_not(place.path + "/" + kManifestFile)) return true;
  for (const std::string& file : place.files)
    if (may_not(file)) return true;
  return false;
}

/// Whether the place is whole. Prints what is not.
bool verify_place(const CheckpointPlace& place) {
  const double start = monotonic_seconds();
  const Faults faults = faults_of(place);
  std::error_code ignored;
  double bytes = 0.0;
  for (const std::string& file : place.files) {
    const auto size = std::filesystem::file_size(file, ignored);
    if (!ignored) bytes += static_cast<double>(size);
  }
  const double seconds = monotonic_seconds() - start;
  if (!faults.empty() && is_forbidden(place))
    info("{}: UNREADABLE, this user may not read it", place.path);
  else
    info("{}: {}, {} in {} ({:.2f} GB/s)", place.path, faults.empty() ? "verified" : "DAMAGED",
         format_bytes(bytes), format_duration(seconds), bytes / seconds * 1e-9);
  for (const std::string& fault : faults) info("  {}", fault);
  return faults.empty();
}

// The note is worth a warning at most: a reader of another's run may not write there.
void note_verified(const CheckpointPlace& place) {
  if (mpi_session().rank() != 0) return;
  try {
    CheckpointStore(place.root).mark_verified(place.entry.step);
  } catch (const DataError& e) {
    warn("the checkpoint is whole, but that cannot be noted in it: {}", e.what());
  }
}

int verify(const VerifyRequest& request) {
  int damaged = 0, all = 0;
  for (const std::string& path : request.paths)
    for (const CheckpointPlace& place : agree_on_places(path, request.choose)) {
      ++all;
      if (!verify_place(place))
        ++damaged;
      else if (place.is_checkpoint)
        note_verified(place);
    }
  if (damaged > 0) info("{} of {} damaged or unreadable", damaged, all);
  return static_cast<int>(damaged > 0 ? ExitCode::data : ExitCode::success);
}

}  // namespace

void add_checkpoint_verify(CLI::App& verb, Action& action) {
  const auto r = std::make_shared<VerifyRequest>();
  CLI::App* verify_verb =
      verb.add_subcommand("verify", "Compare all checksums; several ranks share the work");
  verify_verb->add_option("PATH", r->paths, "Runs (their newest), folders of checkpoints, or files")
      ->required();
  verify_verb->add_flag_callback(
      "--all", [r] { r->choose = Choose::all; }, "Every checkpoint of a run");
  verify_verb->callback([r, &action] { action = [r] { return verify(*r); }; });
}

}  // namespace espalier
