// SPDX-License-Identifier: Apache-2.0
// The writer of tensor files.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <set>

#include "checkpoint/dataset_writer.hpp"
#include "checkpoint/file_properties.hpp"
#include "checkpoint/gathered_write.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/tensor_file.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

constexpr size_t kLargestAttribute = 60000;  // HDF5 limits an object header message to 64 KiB

// An exchange costs a few synchronisations, a run alone a system call.
constexpr int64_t kManyRuns = 256;

}  // namespace

struct TensorFileWriter::State {
  std::string path, part;
  Ranks ranks;
  FileOptions options;
  H5File file;
  std::string error;  // the first one of this rank, until close() shares it
  std::map<std::string, DatasetInfo> datasets;
  std::map<std::string, uint64_t> sums;  // of what this rank wrote; as many as datasets
  std::set<std::string> groups;
  // Where the data of contiguous datasets ends, and what chunks take at most.
  int64_t data_end = 0, chunk_bytes = 0;
  bool is_reserved = true;
  HostPieces host;

  State(const std::string& p, const Comm* comm, const FileOptions& o)
      : path(p), part(p + ".part"), ranks(comm), options(o) {}

  const DatasetInfo& find(const std::string& name) const {
    const auto found = datasets.find(name);
    ESPALIER_REQUIRE(found != datasets.end(), "{}: dataset {} was never created", path, name);
    return found->second;
  }
  /// Runs `action`, and keeps a DataError for close(): a rank that leaves a method alone would let
  /// the others wait for it.
  void keep_error(const std::function<void()>& action);
  void create(const std::string& name, const DatasetInfo& info, const H5Type& type);
  void note_storage(hid_t dataset, const DatasetInfo& info);
  void write_slab(const std::string& name, const Shape& offset, const Shape& extent,
                  const void* data);
  using SlabsOfOne = std::vector<const TensorSlab*>;
  void write_together(const std::string& name, const SlabsOfOne& own, int64_t rounds);
  void write_by_rows(const std::string& name, const SlabsOfOne& own, int64_t most_slabs);
  void put_attribute(const std::string& object, const std::string& name, const H5Type& type,
                     const void* value);
  void put_checksums();
};

TensorFileWriter::TensorFileWriter(const std::string& path, const Comm* ranks,
                                   const FileOptions& options)
    : state_(std::make_unique<State>(path, ranks, options)) {
  silence_hdf5();
  state_->ranks.run_agreed([&] { require_writable_place(path); });
  const H5Properties access = make_write_access(path, options, state_->ranks);
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
  const H5Properties properties = make_dataset_properties(path, options, info);
  H5Dataset dataset(checked(H5Dcreate2(file.get(), name.c_str(), type.get(), space.get(),
                                       H5P_DEFAULT, properties.get(), H5P_DEFAULT),
                            path, name, "create the dataset"));
  note_storage(dataset.get(), info);
  if (!options.checksums) return;
  sums[name] = 0;
  // Its place is taken now, so that the bytes of the file do not depend on when close() fills it.
  const int64_t none = 0;
  put_attribute(name, kChecksum, make_file_type(StoredType::int64), &none);
}

void TensorFileWriter::State::note_storage(hid_t dataset, const DatasetInfo& info) {
  if (info.bytes == 0) return;
  const auto stored = static_cast<int64_t>(H5Dget_storage_size(dataset));
  const haddr_t address = H5Dget_offset(dataset);
  is_reserved = false;
  if (address != HADDR_UNDEF)
    data_end = std::max(data_end, static_cast<int64_t>(address) + stored);
  else
    chunk_bytes += stored + (2 * stored / options.chunk_bytes + 1) * options.alignment;
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

void TensorFileWriter::State::keep_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const DataError& e) {
    if (ranks.size() == 1) throw;
    if (error.empty()) error = e.what();
  }
}

void TensorFileWriter::State::write_slab(const std::string& name, const Shape& offset,
                                         const Shape& extent, const void* data) {
  keep_error([&] {
    DatasetWriter out(file.get(), path, name, find(name), options,
                      ranks.transfer(Transfer::independent, path), host);
    for (int64_t p = 0, pieces = out.pieces(extent); p < pieces; ++p)
      out.write(offset, extent, data, p);
    if (options.checksums) sums.at(name) += out.sum();
  });
}

void TensorFileWriter::State::write_together(const std::string& name, const SlabsOfOne& own,
                                             int64_t rounds) {
  DatasetWriter out(file.get(), path, name, find(name), options,
                    ranks.transfer(Transfer::collective, path), host);
  int64_t round = 0;
  for (const TensorSlab* slab : own)
    for (int64_t p = 0, pieces = out.pieces(slab->extent); p < pieces; ++p, ++round)
      keep_error([&] { out.write(slab->offset, slab->extent, slab->data, p); });
  for (; round < rounds; ++round) keep_error([&] { out.write_nothing(); });
  if (options.checksums) sums.at(name) += out.sum();
}

void TensorFileWriter::State::write_by_rows(const std::string& name, const SlabsOfOne& own,
                                            int64_t most_slabs) {
  const DatasetInfo& info = find(name);
  DatasetWriter out(file.get(), path, name, info, options,
                    ranks.transfer(Transfer::independent, path), host);
  write_gathered(out, *ranks.comm(), info, own, most_slabs, options.piece_bytes,
                 [this](const std::function<void()>& write) { keep_error(write); });
  if (options.checksums) sums.at(name) += out.sum();
}

void TensorFileWriter::write_slab(const std::string& name, const Shape& offset, const Shape& extent,
                                  const void* data) {
  const Shape& shape = state_->find(name).shape;
  ESPALIER_REQUIRE(!shape.empty(), "{}: a scalar has no slabs", name);
  require_slab_inside(name, shape, offset, extent);
  if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return;
  state_->write_slab(name, offset, extent, data);
}

void TensorFileWriter::write_slabs(const std::string& group, const TensorSlabs& own) {
  State& s = *state_;
  reserve();
  const std::string prefix = group.empty() ? "" : group + "/";
  std::map<std::string, State::SlabsOfOne> by_name;
  for (auto d = s.datasets.lower_bound(prefix);
       d != s.datasets.end() && d->first.compare(0, prefix.size(), prefix) == 0; ++d)
    by_name[d->first];
  for (const TensorSlab& slab : own) {
    const std::string name = prefix + slab.name;
    const auto& [type, shape, bytes, checksum] = s.find(name);
    ESPALIER_REQUIRE(!shape.empty(), "{}: a scalar has no slabs", name);
    ESPALIER_REQUIRE(slab.type == type, "{}: a slab in {} of a dataset in {}", name,
                     stored_type_name(slab.type), stored_type_name(type));
    require_slab_inside(name, shape, slab.offset, slab.extent);
    by_name[name].push_back(&slab);
  }
  // Of every dataset the most pieces, runs in the file, and slabs that a rank has of it.
  std::vector<int64_t> plan;
  for (const auto& [name, slabs] : by_name) {
    const DatasetInfo& info = s.find(name);
    int64_t pieces = 0, runs = 0;
    for (const TensorSlab* slab : slabs) {
      pieces += piece_count(slab->extent, stored_type_bytes(info.type), s.options.piece_bytes);
      runs += run_count(info.shape, slab->extent);
    }
    plan.push_back(pieces);
    plan.push_back(runs);
    plan.push_back(static_cast<int64_t>(slabs.size()));
  }
  const TransferMode mode = s.options.transfer;
  if (mode != TransferMode::independent) s.ranks.keep_largest(plan);
  size_t at = 0;
  for (const auto& [name, slabs] : by_name) {
    const int64_t rounds = plan[at++], runs = plan[at++], most_slabs = plan[at++];
    if (mode == TransferMode::collective)
      s.write_together(name, slabs, rounds);
    else if (mode == TransferMode::automatic && runs > kManyRuns && s.ranks.size() > 1)
      s.write_by_rows(name, slabs, most_slabs);
    else
      for (const TensorSlab* slab : slabs)
        s.write_slab(name, slab->offset, slab->extent, slab->data);
  }
}

void TensorFileWriter::reserve() {
  State& s = *state_;
  if (s.is_reserved) return;
  try {
    s.ranks.run_agreed([&] {
      const int64_t bytes = s.data_end + s.chunk_bytes;
      require_file_size_allowed(s.path, bytes);
      if (s.ranks.rank() == 0) reserve_space(s.part, bytes);
    });
  } catch (const DataError&) {
    // All ranks are here, and can close it together: an open file would keep its blocks.
    H5Fclose(s.file.release());
    if (s.ranks.rank() == 0) ::unlink(s.part.c_str());
    throw;
  }
  s.is_reserved = true;
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
  s.write_slab(name, offset, extent, static_cast<const char*>(data) + first * (info.bytes / rows));
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

void TensorFileWriter::State::put_checksums() {
  if (sums.empty()) return;
  std::vector<uint64_t> all;
  for (const auto& [name, sum] : sums) all.push_back(sum);
  ranks.add_up(all);
  keep_error([&] {
    const H5Type type = make_file_type(StoredType::int64);
    size_t at = 0;
    for (const auto& [name, sum] : sums) {
      // Not H5Aopen_by_name: HDF5 1.10 finds no attribute to write behind it.
      const H5Dataset dataset(
          checked(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
      H5Attribute attribute(
          checked(H5Aopen(dataset.get(), kChecksum, H5P_DEFAULT), path, name, "open its checksum"));
      checked(H5Awrite(attribute.get(), type.get(), &all[at++]), path, name, "write its checksum");
    }
  });
}

void TensorFileWriter::close() {
  State& s = *state_;
  ESPALIER_REQUIRE(s.file.is_open(), "{} is closed twice", s.path);
  s.put_checksums();
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
  // Every rank, since hosts have caches of their own.
  share([&] { flush_file(s.part); });
  share([&] {
    if (s.ranks.rank() == 0) rename_durably(s.part, s.path);
  });
}

}  // namespace espalier
