// SPDX-License-Identifier: Apache-2.0
// The reader of tensor files: opens, indexes, and hands out slabs of what passed the checks.
#include <algorithm>

#include "checkpoint/host_pieces.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/slab.hpp"
#include "checkpoint/tensor_file.hpp"
#include "checkpoint/tensor_file_index.hpp"
#include "core/checksum.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {

namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // is summed while a cache holds it

/// What this rank read of a dataset and counts.
struct Counted {
  uint64_t sum = 0, elements = 0;
};

}  // namespace

struct TensorFileReader::State {
  std::string path;
  Ranks ranks;
  H5File file;
  std::map<std::string, DatasetInfo> datasets;
  std::map<std::string, Counted> counted;
  HostPieces host;

  State(const std::string& p, const Comm* comm) : path(p), ranks(comm) {}

  /// Returns the slab's part of the checksum if it counts, else 0.
  uint64_t read(const std::string& name, const Shape& offset, const Shape& extent, void* data,
                Count count);
  /// From rank 0 to all.
  void broadcast(void* data, int64_t bytes);
  void require_same_index() const;
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
    require_checked_headers(path);
  });
  // Every rank by itself, not through MPI-IO: opening, reading and failing concern it alone then.
  state_->ranks.run_agreed([&] {
    const H5Properties access = own_access(path);
    state_->file =
        H5File(checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), path, "", "open it"));
    state_->datasets = index_datasets(state_->file.get(), path, file_bytes);
  });
  state_->require_same_index();
}

void TensorFileReader::State::require_same_index() const {
  std::string all;
  for (const auto& [name, info] : datasets)
    all += fmt::format("{} {} {} {}\n", name, stored_type_name(info.type), shape_text(info.shape),
                       info.checksum.value_or(0));
  const auto hash = static_cast<int64_t>(hash_name(all));
  std::vector<int64_t> largest{hash, ~hash};
  ranks.keep_largest(largest);
  if (largest[0] != ~largest[1])
    throw DataError(
        fmt::format("{}: ranks see different files; check that all hosts see the same folder, and "
                    "that nothing writes to it",
                    path));
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

uint64_t TensorFileReader::State::read(const std::string& name, const Shape& offset,
                                       const Shape& extent, void* data, Count count) {
  const DatasetInfo& info = datasets.at(name);
  const bool is_text = info.type == StoredType::text;
  const int64_t element_bytes = is_text ? info.bytes : stored_type_bytes(info.type);
  const H5Dataset dataset(
      checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
  // Texts of other writers may be ASCII: HDF5 does not convert between character sets.
  const H5Type type = is_text ? H5Type(checked(H5Dget_type(dataset.get()), path, name, "read type"))
                              : make_file_type(info.type);
  const uint64_t seed = checksum_seed(name);
  uint64_t sum = 0;
  for (int64_t p = 0, n = piece_count(extent, element_bytes, kPieceBytes); p < n; ++p) {
    const SlabPiece piece = cut_piece(offset, extent, element_bytes, kPieceBytes, p);
    const SlabSelection selection = select_piece(path, name, info.shape, piece);
    char* place = static_cast<char*>(data) + piece.byte_offset;
    const int64_t bytes = shape_bytes(piece.extent, element_bytes);
    void* to = host.room_for(place, bytes);
    checked(H5Dread(dataset.get(), type.get(), selection.memory.get(), selection.file.get(),
                    H5P_DEFAULT, to),
            path, name, "read the dataset");
    host.store(place, bytes);
    if (count == Count::copy) continue;
    sum += is_text ? checksum_run(seed, 0, 0, to, info.bytes, 1)
                   : checksum_slab(seed, info.shape, piece.offset, piece.extent, to, element_bytes);
  }
  return sum;
}

void TensorFileReader::State::broadcast(void* data, int64_t bytes) {
  if (ranks.size() == 1) return;
  const bool is_mine = ranks.rank() == 0;
  if (!device::is_device(data)) return ranks.broadcast(data, bytes);
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    char* place = static_cast<char*>(data) + at;
    const int64_t size = std::min(kPieceBytes, bytes - at);
    void* piece = host.room_for(place, size);
    if (is_mine) host.fetch(place, size);
    ranks.broadcast(piece, size);
    if (!is_mine) host.store(place, size);
  }
}

void TensorFileReader::read_slab(const std::string& name, StoredType type, const Shape& offset,
                                 const Shape& extent, void* data, Count count) {
  const Shape& shape = info(name).shape;
  require(name, shape, type);
  require_slab_inside(name, shape, offset, extent);
  const uint64_t sum = state_->read(name, offset, extent, data, count);
  if (count == Count::copy) return;
  Counted& counted = state_->counted[name];
  counted.sum += sum;
  counted.elements += static_cast<uint64_t>(shape_bytes(extent, 1));
}

std::vector<DatasetDamage> TensorFileReader::damaged_datasets() {
  State& s = *state_;
  std::vector<uint64_t> all;
  for (const auto& [name, info] : s.datasets) {
    const auto found = s.counted.find(name);
    const Counted own = found == s.counted.end() ? Counted{} : found->second;
    all.push_back(own.sum);
    all.push_back(own.elements);
  }
  s.counted.clear();
  s.ranks.add_up(all);
  std::vector<DatasetDamage> damaged;
  size_t at = 0;
  for (const auto& [name, info] : s.datasets) {
    const uint64_t sum = all[at++], elements = all[at++];
    const auto whole = static_cast<uint64_t>(shape_bytes(info.shape, 1));
    if (elements == 0 || !info.checksum) continue;
    ESPALIER_REQUIRE(elements == whole, "{}: {}: {} of {} elements were counted", s.path, name,
                     elements, whole);
    if (sum != *info.checksum) damaged.push_back({name, *info.checksum, sum});
  }
  return damaged;
}

std::string DatasetDamage::text() const {
  return fmt::format("{}: its checksum is {:016x}, but the data gives {:016x}", name, expected,
                     found);
}

void TensorFileReader::require_intact() {
  const std::vector<DatasetDamage> damaged = damaged_datasets();
  if (damaged.empty()) return;
  std::string text;
  for (const DatasetDamage& d : damaged) text += "\n  " + d.text();
  throw DataError(fmt::format("{}: {} of its {} datasets are damaged; use another file:{}", path(),
                              damaged.size(), datasets().size(), text));
}

void TensorFileReader::read_whole(const std::string& name, const Shape& shape, StoredType type,
                                  void* data) {
  require(name, shape, type);
  const DatasetInfo& found = info(name);
  if (found.bytes == 0) return;
  state_->ranks.run_agreed([&] {
    if (state_->ranks.rank() != 0) return;
    const uint64_t sum = state_->read(name, Shape(shape.size(), 0), shape, data, Count::once);
    if (found.checksum && *found.checksum != sum)
      throw DataError(fmt::format("{}: {}; the file is damaged, use another", path(),
                                  DatasetDamage{name, *found.checksum, sum}.text()));
  });
  state_->broadcast(data, found.bytes);
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

std::vector<std::pair<std::string, std::string>> TensorFileReader::attributes(
    const std::string& object) const {
  const H5Object owner = open_object(state_->file.get(), path(), object);
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& name : attribute_names(owner.get(), path(), object))
    all.emplace_back(name, attribute_value(owner.get(), path(), object, name));
  return all;
}

}  // namespace espalier
