// SPDX-License-Identifier: Apache-2.0
// Whether state files are what was written: checksums of all tensors, and the digest that ties the
// files to each other and to their manifest.
#include <xxhash.h>

#include <cstring>
#include <map>

#include "checkpoint/piece_cut.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/state_schema.hpp"
#include "core/error.hpp"
#include "grid/comm.hpp"

namespace espalier {

// Of texts, so that a few lines in any language can do the same: docs/checkpoint-format.md.
std::string StateReader::digest() const {
  std::string text;
  for (const ProgressField& field : progress_fields()) {
    if (field.integer) {
      text += fmt::format("{}={}\n", field.name, progress_.*field.integer);
    } else {
      uint64_t bits = 0;
      std::memcpy(&bits, &(progress_.*field.real), sizeof(bits));
      text += fmt::format("{}={:016x}\n", field.name, bits);
    }
  }
  std::map<std::string, uint64_t> sums;  // sorted by name, whichever file holds what
  for (const auto& file : files_)
    for (const auto& [name, info] : file->datasets()) sums[name] = info.checksum.value_or(0);
  for (const auto& [name, sum] : sums) text += fmt::format("{}={:016x}\n", name, sum);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

void StateReader::require_those_of(int64_t step, const std::string& expected) const {
  const std::string& path = files_.front()->path();
  if (progress_.step != step)
    throw DataError(fmt::format(
        "{}: its state is of step {}, its manifest of step {}; files of two checkpoints were mixed",
        path, progress_.step, step));
  const std::string found = digest();
  if (found == expected) return;
  const std::string last = files_.back()->path().substr(folder_.size() + 1);
  throw DataError(fmt::format(
      "{}{}: its state files are not those that the manifest was written for (their digest is {}, "
      "the manifest says {}); they were changed, or come from another run",
      path, files_.size() == 1 ? "" : " to " + last, found, expected));
}

std::vector<std::string> StateReader::damaged_tensors() {
  std::vector<std::string> faults;
  for (const auto& file : files_) {
    // A rank that cannot read its share must not leave the others alone in the sums.
    Ranks(ranks_).run_agreed([&] {
      int64_t number = 0;
      for (const auto& [name, info] : file->datasets())
        if (!is_history(name)) count_share(*file, name, number++, ranks_);
    });
    for (const DatasetDamage& d : file->damaged_datasets())
      faults.push_back(fmt::format("{}: {}", file->path(), d.text()));
  }
  return faults;
}

void StateReader::verify() {
  const std::vector<std::string> faults = damaged_tensors();
  if (!faults.empty())
    throw DataError(fmt::format("{}: {} damaged tensors; use another checkpoint:{}", folder_,
                                faults.size(), list_faults(faults)));
}

void StateReader::require_intact(const TensorSlabs& own, const Comm& ranks) const {
  std::vector<const TensorFileReader*> file;
  std::vector<std::string> names;
  for (const auto& f : files_)
    for (const auto& [name, info] : f->datasets())
      if (!is_history(name)) {
        file.push_back(f.get());
        names.push_back(name);
      }
  const std::map<std::string, uint64_t> sums = sum_slabs(own);
  std::vector<uint64_t> found(names.size(), 0);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto at = sums.find(names[i]);
    if (at != sums.end()) found[i] = at->second;
  }
  ranks.all_reduce(found.data(), static_cast<int64_t>(found.size()), ReduceOp::sum);
  std::vector<std::string> faults;
  for (size_t i = 0; i < names.size(); ++i) {
    const uint64_t expected = file[i]->info(names[i]).checksum.value_or(0);
    if (found[i] != expected)
      faults.push_back(fmt::format("{}: {}: checksum {:016x}, expected {:016x}", file[i]->path(),
                                   names[i], found[i], expected));
  }
  if (!faults.empty())
    throw DataError(
        fmt::format("{}: {} damaged tensors; restore the file from a copy, or resume "
                    "from an earlier checkpoint (espalier checkpoint list):{}",
                    folder_, faults.size(), list_faults(faults)));
}

}  // namespace espalier
