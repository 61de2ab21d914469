// SPDX-License-Identifier: Apache-2.0
// The reader of tensor files: opens, indexes, and hands out slabs of what passed the checks.
#include "checkpoint/durable.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/slab.hpp"
#include "checkpoint/tensor_file.hpp"
#include "checkpoint/tensor_file_index.hpp"
#include "core/error.hpp"

namespace espalier {

struct TensorFileReader::State {
  std::string path;
  Ranks ranks;
  H5File file;
  std::map<std::string, DatasetInfo> datasets;

  State(const std::string& p, const Comm* comm) : path(p), ranks(comm) {}

  H5Dataset open(const std::string& name) const {
    return H5Dataset(
        checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
  }
  void read(Transfer kind, const std::string& name, const Shape& offset, const Shape& extent,
            void* data) const;
};

namespace {

/// A group or dataset by name, opened for its attributes.
using H5Object = H5Handle<H5Oclose>;

H5Object open_object(hid_t file, const std::string& path, const std::string& object) {
  const char* name = object.empty() ? "/" : object.c_str();
  // Every link on the way must exist and be a plain one, or another file might be opened.
  for (size_t end = object.find('/'); !object.empty(); end = object.find('/', end + 1)) {
    const std::string prefix = object.substr(0, end);
    H5L_info_t link;
    if (H5Lget_info(file, prefix.c_str(), &link, H5P_DEFAULT) < 0)
      throw DataError(fmt::format("{}: {} is missing", path, prefix));
    if (link.type != H5L_TYPE_HARD)
      throw DataError(fmt::format("{}: {} is a link, which is not followed", path, prefix));
    if (end == std::string::npos) break;
  }
  return H5Object(checked(H5Oopen(file, name, H5P_DEFAULT), path, object, "open it"));
}

}  // namespace

TensorFileReader::TensorFileReader(const std::string& path, const Comm* ranks)
    : state_(std::make_unique<State>(path, ranks)) {
  silence_hdf5();
  int64_t file_bytes = 0;
  state_->ranks.run_agreed([&] {
    file_bytes = require_readable_file(path);
    const htri_t is_hdf5 = H5Fis_hdf5(path.c_str());
    if (is_hdf5 == 0)
      throw DataError(path + ": is not an HDF5 file; name a file that Espalier wrote");
    checked(is_hdf5, path, "", "read it");
  });
  const H5Properties access = state_->ranks.file_access(path);
  state_->file =
      H5File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), path, "", "open it"));
  state_->ranks.run_agreed(
      [&] { state_->datasets = index_datasets(state_->file.get(), path, file_bytes); });
}

TensorFileReader::~TensorFileReader() = default;

const std::string& TensorFileReader::path() const {
  return state_->path;
}

const std::map<std::string, DatasetInfo>& TensorFileReader::datasets() const {
  return state_->datasets;
}

const DatasetInfo& TensorFileReader::info(const std::string& name) const {
  const auto found = state_->datasets.find(name);
  if (found == state_->datasets.end())
    throw DataError(fmt::format("{}: the dataset {} is missing", path(), name));
  return found->second;
}

void TensorFileReader::require(const std::string& name, const Shape& shape, StoredType type) const {
  const DatasetInfo& found = info(name);
  if (found.type != type || found.shape != shape)
    throw DataError(fmt::format("{}: {}: expected {} {}, found {} {}", path(), name,
                                stored_type_name(type), shape_text(shape),
                                stored_type_name(found.type), shape_text(found.shape)));
}

void TensorFileReader::State::read(Transfer kind, const std::string& name, const Shape& offset,
                                   const Shape& extent, void* data) const {
  const DatasetInfo& info = datasets.at(name);
  const bool is_text = info.type == StoredType::text;
  const int64_t element_bytes = is_text ? info.bytes : stored_type_bytes(info.type);
  const H5Properties transfer = ranks.transfer(kind, path);
  const H5Dataset dataset(
      checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
  // Texts of other writers may be ASCII: HDF5 does not convert between character sets.
  const H5Type type = is_text ? H5Type(checked(H5Dget_type(dataset.get()), path, name, "read type"))
                              : make_file_type(info.type);
  char nothing = 0;  // HDF5 wants an address even where nothing is selected
  const int64_t rounds = transfer_rounds(info.bytes);
  for (int64_t round = 0; round < rounds; ++round) {
    const SlabPart piece =
        make_slab_part(path, name, info.shape, offset, extent, element_bytes, round, rounds);
    void* to = data ? static_cast<char*>(data) + piece.byte_offset : &nothing;
    checked(H5Dread(dataset.get(), type.get(), piece.memory.get(), piece.file.get(), transfer.get(),
                    to),
            path, name, "read the dataset");
  }
}

void TensorFileReader::read_slab(const std::string& name, StoredType type, const Shape& offset,
                                 const Shape& extent, void* data) {
  const Shape shape = info(name).shape;
  require(name, shape, type);
  require_slab_inside(name, shape, offset, extent);
  state_->read(Transfer::collective, name, offset, extent, data);
}

void TensorFileReader::read_whole(const std::string& name, const Shape& shape, StoredType type,
                                  void* data) {
  require(name, shape, type);
  const int64_t bytes = info(name).bytes;
  if (bytes == 0) return;
  state_->ranks.run_agreed([&] {
    if (state_->ranks.rank() == 0)
      state_->read(Transfer::independent, name, Shape(shape.size(), 0), shape, data);
  });
  state_->ranks.broadcast(data, bytes);
}

std::string TensorFileReader::read_text(const std::string& name) {
  std::string text(static_cast<size_t>(info(name).bytes), '\0');
  read_whole(name, {}, StoredType::text, text.data());
  text.resize(text.find_last_not_of('\0') + 1);  // npos + 1 = 0
  return text;
}

bool TensorFileReader::has_attribute(const std::string& object, const std::string& name) const {
  const H5Object owner = open_object(state_->file.get(), path(), object);
  return H5Aexists(owner.get(), name.c_str()) > 0;
}

std::string TensorFileReader::text_attribute(const std::string& object,
                                             const std::string& name) const {
  const H5Object owner = open_object(state_->file.get(), path(), object);
  return read_text_attribute(owner.get(), path(), object, name);
}

int64_t TensorFileReader::integer_attribute(const std::string& object,
                                            const std::string& name) const {
  const H5Object owner = open_object(state_->file.get(), path(), object);
  int64_t value = 0;
  read_number_attribute(owner.get(), path(), object, name, StoredType::int64, &value);
  return value;
}

double TensorFileReader::real_attribute(const std::string& object, const std::string& name) const {
  const H5Object owner = open_object(state_->file.get(), path(), object);
  double value = 0;
  read_number_attribute(owner.get(), path(), object, name, StoredType::fp64, &value);
  return value;
}

}  // namespace espalier
