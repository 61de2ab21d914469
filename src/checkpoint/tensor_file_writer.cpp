// SPDX-License-Identifier: Apache-2.0
// The writer of tensor files. Everything that could make equal content unequal bytes is fixed here:
// no time stamps, one format version, early allocation, links and attributes kept in object headers
// (HDF5's dense storage takes other addresses under MPI than without).
#include <unistd.h>

#include <algorithm>

#include <functional>
#include <set>

#include "checkpoint/durable.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/slab.hpp"
#include "checkpoint/tensor_file.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

constexpr size_t kLargestAttribute = 60000;  // HDF5 limits an object header message to 64 KiB
constexpr unsigned kAlwaysCompact = 65535;

void keep_attributes_compact(hid_t properties, const std::string& file) {
  checked(H5Pset_obj_track_times(properties, false), file, "", "switch time stamps off");
  checked(H5Pset_attr_phase_change(properties, kAlwaysCompact, 0), file, "",
          "choose attribute storage");
}

/// Of a group or, with H5P_FILE_CREATE, of the root group.
H5Properties make_group_properties(hid_t kind, const std::string& file) {
  H5Properties properties(checked(H5Pcreate(kind), file, "", "make group properties"));
  keep_attributes_compact(properties.get(), file);
  checked(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED), file, "",
          "keep the order of links");
  checked(H5Pset_link_phase_change(properties.get(), kAlwaysCompact, 0), file, "",
          "choose link storage");
  return properties;
}

H5Properties make_dataset_properties(const std::string& file) {
  H5Properties properties(
      checked(H5Pcreate(H5P_DATASET_CREATE), file, "", "make dataset properties"));
  keep_attributes_compact(properties.get(), file);
  checked(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), file, "", "choose the layout");
  checked(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), file, "", "reserve space");
  checked(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), file, "", "leave filling out");
  return properties;
}

}  // namespace

struct TensorFileWriter::State {
  std::string path, part;
  Ranks ranks;
  H5File file;
  std::string error;  // the first one of this rank, until close() shares it
  std::map<std::string, DatasetInfo> datasets;
  std::set<std::string> groups;

  State(const std::string& p, const Comm* comm) : path(p), part(p + ".part"), ranks(comm) {}

  const DatasetInfo& find(const std::string& name) const {
    const auto found = datasets.find(name);
    ESPALIER_REQUIRE(found != datasets.end(), "{}: dataset {} was never created", path, name);
    return found->second;
  }
  void create(const std::string& name, const DatasetInfo& info, const H5Type& type);
  void write(Transfer kind, const std::string& name, const Shape& offset, const Shape& extent,
             const void* data);
  void write_now(Transfer kind, const std::string& name, const Shape& offset, const Shape& extent,
                 const void* data);
  void put_attribute(const std::string& object, const std::string& name, const H5Type& type,
                     const void* value);
};

TensorFileWriter::TensorFileWriter(const std::string& path, const Comm* ranks)
    : state_(std::make_unique<State>(path, ranks)) {
  silence_hdf5();
  state_->ranks.run_agreed([&] { require_writable_place(path); });
  const H5Properties access = state_->ranks.file_access(path);
  checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), path, "",
          "choose the format version");
  const H5Properties creation = make_group_properties(H5P_FILE_CREATE, path);
  state_->file =
      H5File(checked(H5Fcreate(state_->part.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
                     state_->part, "", "create it"));
}

TensorFileWriter::~TensorFileWriter() {
  if (!state_ || !state_->file.is_open()) return;
  // Closing is collective: a rank that unwinds alone would wait here for ever and hide its error.
  if (state_->ranks.size() > 1)
    state_->file.release();
  else
    state_->file.reset();
  if (state_->ranks.rank() == 0) ::unlink(state_->part.c_str());
}

void TensorFileWriter::create_group(const std::string& name) {
  State& s = *state_;
  if (!s.groups.insert(name).second) return;
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos) create_group(name.substr(0, slash));
  const H5Properties properties = make_group_properties(H5P_GROUP_CREATE, s.path);
  H5Group group(
      checked(H5Gcreate2(s.file.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT),
              s.path, name, "create the group"));
}

void TensorFileWriter::State::create(const std::string& name, const DatasetInfo& info,
                                     const H5Type& type) {
  ESPALIER_REQUIRE(datasets.emplace(name, info).second, "{}: dataset {} is created twice", path,
                   name);
  const H5Space space = make_space(path, name, info.shape);
  const H5Properties properties = make_dataset_properties(path);
  H5Dataset dataset(checked(H5Dcreate2(file.get(), name.c_str(), type.get(), space.get(),
                                       H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                            path, name, "create the dataset"));
}

void TensorFileWriter::create_dataset(const std::string& name, const Shape& shape,
                                      StoredType type) {
  const int64_t bytes = shape_bytes(shape, stored_type_bytes(type));
  ESPALIER_REQUIRE(bytes >= 0 && stored_type_bytes(type) > 0, "{}: {} of {} cannot be stored", name,
                   shape_text(shape), stored_type_name(type));
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos) create_group(name.substr(0, slash));
  state_->create(name, {type, shape, bytes}, make_file_type(type));
  if (type == StoredType::bf16) set_attribute(name, "element_type", "bf16");
}

void TensorFileWriter::State::write_now(Transfer kind, const std::string& name, const Shape& offset,
                                        const Shape& extent, const void* data) {
  const DatasetInfo& info = find(name);
  const bool is_text = info.type == StoredType::text;
  const int64_t element_bytes = is_text ? info.bytes : stored_type_bytes(info.type);
  const H5Type type = make_file_type(info.type, static_cast<size_t>(info.bytes));
  const H5Properties transfer = ranks.transfer(kind, path);
  const H5Dataset dataset(
      checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
  // HDF5 wants an address even where nothing is selected.
  static const char nothing = 0;
  const int64_t rounds = transfer_rounds(info.bytes);
  for (int64_t round = 0; round < rounds; ++round) {
    const SlabPart piece =
        make_slab_part(path, name, info.shape, offset, extent, element_bytes, round, rounds);
    const void* from = data ? static_cast<const char*>(data) + piece.byte_offset : &nothing;
    checked(H5Dwrite(dataset.get(), type.get(), piece.memory.get(), piece.file.get(),
                     transfer.get(), from),
            path, name, "write the dataset");
  }
}

void TensorFileWriter::State::write(Transfer kind, const std::string& name, const Shape& offset,
                                    const Shape& extent, const void* data) {
  try {
    write_now(kind, name, offset, extent, data);
  } catch (const DataError& e) {
    // A rank that leaves here alone would let the others wait for it: close() tells all of them.
    if (ranks.size() == 1) throw;
    if (error.empty()) error = e.what();
  }
}

void TensorFileWriter::write_slab(const std::string& name, const Shape& offset, const Shape& extent,
                                  const void* data) {
  const Shape& shape = state_->find(name).shape;
  ESPALIER_REQUIRE(!shape.empty(), "{}: a scalar has no slabs", name);
  require_slab_inside(name, shape, offset, extent);
  // Not HDF5's collective transfer: a rank that fails in the middle of one (a full disk) leaves the
  // others in it for ever.
  if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return;
  state_->write(Transfer::independent, name, offset, extent, data);
}

void TensorFileWriter::write_replicated(const std::string& name, const void* data) {
  // Each rank's rows lie in one piece in the file, so that nothing is gained by a collective call.
  State& s = *state_;
  const DatasetInfo& info = s.find(name);
  const int64_t rank = s.ranks.rank(), size = s.ranks.size();
  const int64_t rows = info.shape.empty() ? 1 : info.shape[0];
  const int64_t first = rows / size * rank + rows % size * rank / size;
  const int64_t last = rows / size * (rank + 1) + rows % size * (rank + 1) / size;
  if (first == last) return;
  Shape offset(info.shape.size(), 0), extent = info.shape;
  if (!info.shape.empty()) {
    offset[0] = first;
    extent[0] = last - first;
  }
  s.write(Transfer::independent, name, offset, extent,
          static_cast<const char*>(data) + first * (info.bytes / rows));
}

void TensorFileWriter::write_text(const std::string& name, const std::string& text) {
  const std::string stored = text.empty() ? std::string(1, '\0') : text;
  const size_t slash = name.rfind('/');
  if (slash != std::string::npos) create_group(name.substr(0, slash));
  const auto bytes = static_cast<int64_t>(stored.size());
  state_->create(name, {StoredType::text, {}, bytes},
                 make_file_type(StoredType::text, stored.size()));
  write_replicated(name, stored.data());
}

void TensorFileWriter::State::put_attribute(const std::string& object, const std::string& name,
                                            const H5Type& type, const void* value) {
  const char* owner = object.empty() ? "/" : object.c_str();
  const std::string place = object + "@" + name;
  const H5Space space = make_space(path, place, {});
  H5Attribute attribute(
      checked(H5Acreate_by_name(file.get(), owner, name.c_str(), type.get(), space.get(),
                                H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
              path, place, "create the attribute"));
  checked(H5Awrite(attribute.get(), type.get(), value), path, place, "write the attribute");
}

void TensorFileWriter::set_attribute(const std::string& object, const std::string& name,
                                     const std::string& text) {
  ESPALIER_REQUIRE(text.size() <= kLargestAttribute, "attribute {} of {} bytes is too long", name,
                   text.size());
  const std::string stored = text.empty() ? std::string(1, '\0') : text;
  state_->put_attribute(object, name, make_file_type(StoredType::text, stored.size()),
                        stored.data());
}

void TensorFileWriter::set_attribute(const std::string& object, const std::string& name,
                                     int64_t value) {
  state_->put_attribute(object, name, make_file_type(StoredType::int64), &value);
}

void TensorFileWriter::set_attribute(const std::string& object, const std::string& name,
                                     double value) {
  state_->put_attribute(object, name, make_file_type(StoredType::fp64), &value);
}

void TensorFileWriter::close() {
  State& s = *state_;
  ESPALIER_REQUIRE(s.file.is_open(), "{} is closed twice", s.path);
  const auto share = [&](const std::function<void()>& action) {
    try {
      s.ranks.run_agreed(action);
    } catch (const DataError&) {
      if (s.ranks.rank() == 0) ::unlink(s.part.c_str());
      throw;
    }
  };
  share([&] {
    const herr_t flushed = H5Fflush(s.file.get(), H5F_SCOPE_GLOBAL);
    if (flushed < 0 && s.error.empty())
      s.error = fmt::format("{}: cannot flush it (HDF5: {})", s.path, hdf5_error_text());
    // Closed even so: other ranks close it too, and closing is collective.
    const herr_t closed = H5Fclose(s.file.release());
    if (!s.error.empty()) throw DataError(s.error);
    checked(closed, s.path, "", "close it");
  });
  share([&] {
    if (s.ranks.rank() == 0) publish_file(s.part, s.path);
  });
}

}  // namespace espalier
