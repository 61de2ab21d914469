// SPDX-License-Identifier: Apache-2.0
// Writing of state files: which tensor goes to which file, and what stands beside the tensors.
#include "checkpoint/state_file.hpp"

#include <algorithm>
#include <set>

#include "checkpoint/ranks.hpp"
#include "checkpoint/state_schema.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"

namespace espalier {

namespace {

struct PlacedTensor {
  std::string name;
  Shape shape;
  StoredType type = StoredType::fp32;
  int64_t file = 0;
  int64_t bytes() const { return shape_bytes(shape, stored_type_bytes(type)); }
};

// Runs of neighbouring tensors with about the same number of bytes a file.
std::vector<PlacedTensor> place_tensors(const StateLayout& layout) {
  std::vector<PlacedTensor> placed;
  int64_t total = 0;
  for (const char* group : kTensorGroups)
    for (const TensorRow& row : layout.tensors) {
      placed.push_back(
          {std::string(group) + "/" + row.name, row.shape, type_in_group(layout.types, group)});
      total += placed.back().bytes();
    }
  int64_t before = 0;
  for (PlacedTensor& tensor : placed) {
    tensor.file = std::min(layout.files - 1,
                           static_cast<int64_t>(static_cast<__int128>(before) * layout.files /
                                                std::max<int64_t>(1, total)));
    before += tensor.bytes();
  }
  return placed;
}

void write_progress(TensorFileWriter& file, const TrainingProgress& progress) {
  for (const ProgressField& field : progress_fields()) {
    if (field.integer)
      file.set_attribute("", field.name, progress.*field.integer);
    else
      file.set_attribute("", field.name, progress.*field.real);
  }
}

template <class T>
void write_column(TensorFileWriter& file, const char* name, const std::vector<T>& values) {
  file.write_tensor(std::string(kHistoryGroup) + "/" + name, {static_cast<int64_t>(values.size())},
                    values.data());
}

void write_file(const std::string& path, int64_t index, const Comm* ranks,
                const StateLayout& layout, const std::vector<PlacedTensor>& tensors,
                const TensorSlabs& slabs, const TrainingProgress& progress,
                const RunHistory& history) {
  TensorFileWriter file(path, ranks, layout.options);
  file.set_attribute("", "format", kStateFormat);
  file.set_attribute("", "format_version", kStateVersion);
  file.set_attribute("", "file", index);
  file.set_attribute("", "files", layout.files);
  write_progress(file, progress);
  // All headers first: they lie together at the front, which makes opening the file cheap.
  std::set<std::string> names;
  for (const PlacedTensor& tensor : tensors) {
    if (tensor.file != index) continue;
    file.create_dataset(tensor.name, tensor.shape, tensor.type);
    names.insert(tensor.name);
  }
  TensorSlabs own;
  for (const TensorSlab& slab : slabs)
    if (names.count(slab.name) != 0) own.push_back(slab);
  const Ranks agreed(ranks);
  agreed.run_agreed([] { test_point("save.slabs"); });
  file.write_slabs("", own);
  if (index == 0)
    for_each_column(
        history, [&](const char* name, const auto& values) { write_column(file, name, values); });
  agreed.run_agreed([] { test_point("save.close"); });
  file.close();
}

}  // namespace

std::string state_file_name(int64_t index, int64_t files) {
  return files == 1 ? "state.h5" : fmt::format("state.{}of{}.h5", index + 1, files);
}

std::vector<StateFileEntry> write_state(const std::string& folder, const Comm* ranks,
                                        const StateLayout& layout, const TensorSlabs& slabs,
                                        const TrainingProgress& progress,
                                        const RunHistory& history) {
  const std::vector<PlacedTensor> tensors = place_tensors(layout);
  std::vector<StateFileEntry> files;
  for (int64_t i = 0; i < layout.files; ++i) {
    const std::string name = state_file_name(i, layout.files);
    write_file(folder + "/" + name, i, ranks, layout, tensors, slabs, progress, history);
    files.push_back({name, 0});
  }
  // Rank 0 looks, and nobody goes on before it has: it moves the folder next.
  const Ranks agreed(ranks);
  agreed.run_agreed([&] {
    if (agreed.rank() != 0) return;
    for (StateFileEntry& file : files) file.bytes = require_readable_file(folder + "/" + file.name);
  });
  for (StateFileEntry& file : files) agreed.broadcast(&file.bytes, sizeof(file.bytes));
  return files;
}

}  // namespace espalier
