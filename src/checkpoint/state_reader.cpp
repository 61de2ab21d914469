// SPDX-License-Identifier: Apache-2.0
// Reading of state files: the checks that stand before every use, and the parts of this rank.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "checkpoint/host_pieces.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/state_schema.hpp"
#include "core/error.hpp"
#include "grid/comm.hpp"
#include "tensor/types.hpp"

namespace espalier {

const std::vector<ProgressField>& progress_fields() {
  using P = TrainingProgress;
  static const std::vector<ProgressField> fields = {
      {"step", &P::step, nullptr},
      {"consumed_tokens", &P::consumed_tokens, nullptr},
      {"next_sequence", &P::next_sequence, nullptr},
      {"seed", &P::seed, nullptr},
      {"optimizer_updates", &P::optimizer_updates, nullptr},
      {"loss_scale", nullptr, &P::loss_scale},
      {"loss_scale_good_steps", &P::loss_scale_good_steps, nullptr},
      {"loss_scale_skipped_in_a_row", &P::loss_scale_skipped_in_a_row, nullptr},
      {"loss_scale_skipped", &P::loss_scale_skipped, nullptr}};
  return fields;
}

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw DataError(path + ": " + what);
}

constexpr int64_t kLargestCount = int64_t{1} << 60;  // of tokens, sequences, steps
constexpr int64_t kMostSteps = 1000000000;

void refuse_unknown_attributes(const TensorFileReader& file) {
  std::set<std::string> known = {"format", "format_version", "file", "files"};
  for (const ProgressField& field : progress_fields()) known.insert(field.name);
  for (const auto& [name, value] : file.attributes(""))
    if (known.count(name) == 0)
      refuse(file.path(), fmt::format("its attribute {} is no part of a checkpoint", name));
}

void check_format(const TensorFileReader& file, int64_t index, int64_t files) {
  const std::string format =
      file.has_attribute("", "format") ? file.text_attribute("", "format") : "none";
  if (format != kStateFormat)
    refuse(file.path(), fmt::format("is not a state file (format: {}); name a checkpoint that "
                                    "Espalier wrote",
                                    format));
  const int64_t version = file.integer_attribute("", "format_version");
  if (version != kStateVersion)
    refuse(file.path(), fmt::format("has format version {}, this program reads {}; use the program "
                                    "that wrote it, which the manifest names",
                                    version, kStateVersion));
  const int64_t own = file.integer_attribute("", "file"), all = file.integer_attribute("", "files");
  if (own != index || all != files)
    refuse(file.path(), fmt::format("is file {} of {} of a checkpoint, expected file {} of {}; it "
                                    "was renamed or stands in the wrong folder",
                                    own + 1, all, index + 1, files));
  refuse_unknown_attributes(file);
}

/// Of one field in one file. A seed may be any number.
void check_integer(const std::string& path, const ProgressField& field, int64_t value) {
  if (field.integer == &TrainingProgress::seed) return;
  const int64_t most = field.integer == &TrainingProgress::step ? kMostSteps : kLargestCount;
  if (value < 0 || value > most)
    refuse(path,
           fmt::format("its {} is {}, which cannot be; expected 0 to {}", field.name, value, most));
}

}  // namespace

StateReader::StateReader(const std::string& folder, const std::vector<StateFileEntry>& files,
                         const Comm* ranks)
    : folder_(folder), ranks_(ranks) {
  if (files.empty()) refuse(folder, "its manifest names no state file");
  const auto count = static_cast<int64_t>(files.size());
  for (int64_t i = 0; i < count; ++i) {
    files_.push_back(std::make_unique<TensorFileReader>(
        folder + "/" + files[static_cast<size_t>(i)].name, ranks));
  }
  Ranks(ranks).run_agreed([&] {
    for (int64_t i = 0; i < count; ++i) check_format(*files_[static_cast<size_t>(i)], i, count);
    read_progress();
    check_datasets();
    check_moments();
  });
  read_history();
}

// The same in all files, or files of two checkpoints were mixed.
void StateReader::read_progress() {
  for (const auto& file : files_)
    for (const ProgressField& field : progress_fields()) {
      const bool is_first = file == files_.front();
      bool agrees = true;
      if (field.integer) {
        const int64_t value = file->integer_attribute("", field.name);
        check_integer(file->path(), field, value);
        if (is_first) progress_.*field.integer = value;
        agrees = progress_.*field.integer == value;
      } else {
        const double value = file->real_attribute("", field.name);
        if (!std::isfinite(value) || value <= 0)
          refuse(file->path(), fmt::format("its {} is {}, which cannot be", field.name, value));
        if (is_first) progress_.*field.real = value;
        agrees = progress_.*field.real == value;
      }
      if (!agrees)
        refuse(file->path(), fmt::format("its {} is another than in {}: the files are of two "
                                         "checkpoints",
                                         field.name, files_.front()->path()));
    }
  if (progress_.optimizer_updates > progress_.step)
    refuse(files_.front()->path(),
           fmt::format("its optimizer_updates is {}, more than its {} steps",
                       progress_.optimizer_updates, progress_.step));
}

// Every dataset is one of the known kinds, and stands in one file only.
void StateReader::check_datasets() {
  std::set<std::string> seen;
  for (const auto& file : files_)
    for (const auto& [name, info] : file->datasets()) {
      if (!seen.insert(name).second)
        refuse(file->path(), name + " stands in another file of this checkpoint as well");
      if (!info.checksum) refuse(file->path(), name + " has no checksum");
      const auto group = std::find_if(
          std::begin(kTensorGroups), std::end(kTensorGroups),
          [&, n = &name](const char* g) { return starts_with(*n, std::string(g) + "/"); });
      if (group == std::end(kTensorGroups)) {
        if (!is_history(name)) refuse(file->path(), name + " is no part of a checkpoint");
        continue;
      }
      const bool is_parameter = *group == kTensorGroups[0];
      if (info.type != StoredType::fp32 && info.type != StoredType::fp64 &&
          !(is_parameter && info.type == StoredType::bf16))
        refuse(file->path(),
               fmt::format("{} is stored as {}, expected fp32 or fp64{}", name,
                           stored_type_name(info.type), is_parameter ? " or bf16" : ""));
      if (info.shape.empty() || info.shape.size() > 2)
        refuse(file->path(), fmt::format("{} has the shape {}, expected one or two dimensions",
                                         name, shape_text(info.shape)));
      StoredType& type = is_parameter ? types_.parameters : types_.moments;
      if (type == StoredType::other) type = info.type;
      if (info.type != type)
        refuse(file->path(),
               fmt::format("{} is stored as {}, other {} as {}", name, stored_type_name(info.type),
                           is_parameter ? "parameters" : "moments", stored_type_name(type)));
    }
  const std::string& path = files_.front()->path();
  if (types_.parameters == StoredType::other) refuse(path, "holds no tensors");
  if (types_.moments != StoredType::other && types_.parameters != types_.moments &&
      !(types_.parameters == StoredType::bf16 && types_.moments == StoredType::fp32))
    refuse(path,
           fmt::format("its parameters are stored as {}, its moments as {}, which cannot be",
                       stored_type_name(types_.parameters), stored_type_name(types_.moments)));
}

// Each parameter has both of its moments, in its shape, and there are no others.
void StateReader::check_moments() const {
  std::map<std::string, std::pair<const TensorFileReader*, const DatasetInfo*>> all;
  for (const auto& file : files_)
    for (const auto& [name, info] : file->datasets()) all[name] = {file.get(), &info};
  for (const auto& [name, found] : all)
    for (const char* own : kTensorGroups) {
      const std::string prefix = std::string(own) + "/";
      if (!starts_with(name, prefix)) continue;
      for (const char* group : kTensorGroups) {
        const std::string other = std::string(group) + "/" + name.substr(prefix.size());
        const auto at = all.find(other);
        if (at == all.end())
          refuse(found.first->path(), fmt::format("it holds {}, but {} is missing", name, other));
        if (at->second.second->shape != found.second->shape)
          refuse(at->second.first->path(), fmt::format("{} has the shape {}, but {} has {}", other,
                                                       shape_text(at->second.second->shape), name,
                                                       shape_text(found.second->shape)));
      }
    }
}

void StateReader::read_history() {
  TensorFileReader& file = *files_.front();
  std::set<std::string> known;
  for_each_column(history_, [&](const char* column, auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    const std::string name = std::string(kHistoryGroup) + "/" + column;
    known.insert(name);
    const bool is_validation = starts_with(column, "validation");
    const int64_t rows =
        is_validation ? static_cast<int64_t>(history_.validation_step.size()) : progress_.step;
    const bool is_first = std::string(column) == "validation_step";
    if (is_first) {
      const Shape& shape = file.info(name).shape;
      if (shape.size() != 1 || shape[0] > progress_.step)
        refuse(file.path(), fmt::format("{} has the shape {} after {} steps", name,
                                        shape_text(shape), progress_.step));
    } else {
      file.require(name, {rows}, StoredTypeOf<T>::kType);
    }
    values = file.read_values<T>(name);
  });
  for (const auto& f : files_)
    for (const auto& [name, info] : f->datasets())
      if (is_history(name) && known.count(name) == 0)
        refuse(f->path(), name + " is no part of a checkpoint");
  int64_t before = 0;
  for (const int64_t step : history_.validation_step) {
    if (step <= before || step > progress_.step)
      refuse(file.path(), fmt::format("history/validation_step holds {} behind {} of {} steps",
                                      step, before, progress_.step));
    before = step;
  }
}

void StateReader::require(const std::vector<TensorRow>& tensors, StoredType moments) const {
  std::vector<std::string> faults;
  std::set<std::string> expected;
  for (const char* group : kTensorGroups)
    for (const TensorRow& row : tensors) {
      const std::string name = std::string(group) + "/" + row.name;
      expected.insert(name);
      const bool is_parameter = group == kTensorGroups[0];
      const StoredType type =
          is_parameter && moments == StoredType::fp32 && types_.parameters == StoredType::bf16
              ? StoredType::bf16
              : moments;
      const auto file = std::find_if(files_.begin(), files_.end(),
                                     [&](const auto& f) { return f->contains(name); });
      if (file == files_.end()) {
        faults.push_back(fmt::format("{}: missing, expected {} {}", name, stored_type_name(type),
                                     shape_text(row.shape)));
        continue;
      }
      const DatasetInfo& found = (*file)->info(name);
      if (found.type != type || found.shape != row.shape)
        faults.push_back(fmt::format("{}: expected {} {}, found {} {}", name,
                                     stored_type_name(type), shape_text(row.shape),
                                     stored_type_name(found.type), shape_text(found.shape)));
    }
  for (const auto& file : files_)
    for (const auto& [name, info] : file->datasets())
      if (!is_history(name) && expected.count(name) == 0)
        faults.push_back(fmt::format("{}: extra, found {} {}", name, stored_type_name(info.type),
                                     shape_text(info.shape)));
  if (!faults.empty())
    throw DeckError(fmt::format(
        "{}: {} of its tensors do not fit the model of this deck; use the [model] section, "
        "batch.seq_length and a compute type (fp64 or another) with which it was written:{}",
        folder_, faults.size(), list_faults(faults)));
}

namespace {

// Rows at a time through a buffer, whose type the file has.
template <class From, class To>
void read_converted(TensorFileReader& file, const TensorTarget& t) {
  constexpr int64_t kBufferBytes = int64_t{1} << 20;
  const Shape one_row = [&] {
    Shape s = t.extent;
    s.front() = 1;
    return s;
  }();
  const int64_t row = shape_bytes(one_row, 1);
  const int64_t rows = std::max<int64_t>(
      1, kBufferBytes / std::max<int64_t>(1, row * static_cast<int64_t>(sizeof(From))));
  std::vector<From> buffer;
  HostPieces host;
  To* to = static_cast<To*>(t.data);
  for (int64_t first = 0; first < t.extent.front(); first += rows) {
    Shape offset = t.offset, extent = t.extent;
    offset.front() += first;
    extent.front() = std::min(rows, t.extent.front() - first);
    buffer.resize(static_cast<size_t>(extent.front() * row));
    file.read_slab(t.name, StoredTypeOf<From>::kType, offset, extent, buffer.data());
    const auto count = static_cast<int64_t>(buffer.size());
    const int64_t bytes = count * static_cast<int64_t>(sizeof(To));
    To* room = static_cast<To*>(host.room_for(to, bytes));
    for (const From x : buffer) *room++ = To(static_cast<float>(x));
    host.store(to, bytes);
    to += count;
  }
}

}  // namespace

void StateReader::read(const TensorTargets& targets) {
  for (const auto& file : files_)
    for (const TensorTarget& t : targets) {
      if (!file->contains(t.name)) continue;
      const StoredType stored = file->info(t.name).type;
      if (stored == StoredType::bf16 && t.type == StoredType::fp32)
        read_converted<bf16, float>(*file, t);
      else if (stored == StoredType::fp32 && t.type == StoredType::bf16)
        read_converted<float, bf16>(*file, t);
      else
        file->read_slab(t.name, t.type, t.offset, t.extent, t.data);
    }
}

}  // namespace espalier
