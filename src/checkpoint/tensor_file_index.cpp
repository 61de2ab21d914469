// SPDX-License-Identifier: Apache-2.0
// Walks a tensor file and examines every dataset's header; reads attributes. Whatever a foreign or
// damaged file says here is checked before it decides how much memory is taken.
#include "checkpoint/tensor_file_index.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <limits>
#include <set>

#include "core/error.hpp"

namespace espalier {

namespace {

constexpr size_t kMostObjects = 1000000;

struct Walk {
  std::vector<std::string> datasets;
  std::set<std::string> objects;  // all of them, groups too
  std::string stopped;
};

herr_t note_object(hid_t, const char* name, const H5O_info_t* info, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  try {
    walk.objects.emplace(name);
    if (info->type == H5O_TYPE_DATASET) walk.datasets.emplace_back(name);
    if (walk.objects.size() > kMostObjects) walk.stopped = "holds too many datasets";
  } catch (const std::exception& e) {  // nothing may fly through C code
    walk.stopped = "cannot be listed";
  }
  return walk.stopped.empty() ? 0 : 1;
}

// Every link is the only name of an object in this file. Soft and external ones lead elsewhere, and
// a second name would let one dataset pass for two.
herr_t note_link(hid_t, const char* name, const H5L_info_t* info, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  try {
    if (info->type != H5L_TYPE_HARD)
      walk.stopped = fmt::format("{}: is a link to {}; links are not followed", name,
                                 info->type == H5L_TYPE_SOFT ? "another name" : "another file");
    else if (walk.objects.count(name) == 0)
      walk.stopped = fmt::format("{}: is a second name of another object", name);
  } catch (const std::exception& e) {
    walk.stopped = "cannot be listed";
  }
  return walk.stopped.empty() ? 0 : 1;
}

[[noreturn]] void refuse(const std::string& path, const std::string& name, const std::string& why) {
  throw DataError(fmt::format("{}: {}: {}", path, name, why));
}

Shape read_shape(hid_t dataset, const std::string& path, const std::string& name) {
  const H5Space space(checked(H5Dget_space(dataset), path, name, "read its shape"));
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind == H5S_SCALAR) return {};
  if (kind != H5S_SIMPLE) refuse(path, name, "has no shape; expected a scalar or an array");
  const int dimensions = checked(H5Sget_simple_extent_ndims(space.get()), path, name, "read rank");
  std::vector<hsize_t> extents(static_cast<size_t>(dimensions));
  checked(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), path, name,
          "read its shape");
  Shape shape;
  for (const hsize_t extent : extents) {
    if (extent > static_cast<hsize_t>(std::numeric_limits<int64_t>::max()))
      refuse(path, name, fmt::format("has an extent of {}, which is absurd", extent));
    shape.push_back(static_cast<int64_t>(extent));
  }
  return shape;
}

/// Chunks must lie in the file, all of them; HDF5 would make up the values of a missing one.
void check_chunks(hid_t dataset, const H5Properties& creation, const std::string& path,
                  const std::string& name, const Shape& shape, int64_t element_bytes,
                  int64_t file_bytes) {
  std::vector<hsize_t> chunk(shape.size());
  const int dimensions = H5Pget_chunk(creation.get(), static_cast<int>(chunk.size()), chunk.data());
  if (dimensions != static_cast<int>(shape.size()))
    refuse(path, name, "has chunks of another rank than its shape; it is damaged");
  Shape extents, counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (chunk[d] == 0 || chunk[d] > static_cast<hsize_t>(file_bytes))
      refuse(path, name, fmt::format("has chunks of extent {}, which is absurd", chunk[d]));
    extents.push_back(static_cast<int64_t>(chunk[d]));
    counts.push_back((shape[d] + extents[d] - 1) / extents[d]);
  }
  const int64_t chunk_bytes = shape_bytes(extents, element_bytes);
  const int64_t expected = chunk_bytes < 0 ? -1 : shape_bytes(counts, chunk_bytes);
  if (expected < 0 || expected > file_bytes)
    refuse(path, name,
           fmt::format("claims chunks of {} that exceed the {} bytes of the file; it is damaged or "
                       "cut off",
                       shape_text(extents), file_bytes));
  if (H5Dget_storage_size(dataset) != static_cast<hsize_t>(expected))
    refuse(path, name, "has chunks without data; it was never written whole");
}

void check_storage(hid_t dataset, const std::string& path, const std::string& name,
                   const Shape& shape, int64_t bytes, int64_t element_bytes, int64_t file_bytes) {
  const H5Properties creation(checked(H5Dget_create_plist(dataset), path, name, "read its layout"));
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (H5Pget_external_count(creation.get()) != 0)
    refuse(path, name, "keeps its data in another file; expected data in the file itself");
  if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT && layout != H5D_CHUNKED)
    refuse(path, name, "is virtual; expected a dataset with its data in the file itself");
  if (H5Pget_nfilters(creation.get()) != 0)
    refuse(path, name,
           "is compressed or filtered; expected plain data (h5repack -f NONE makes it plain)");
  if (bytes > file_bytes)
    refuse(path, name,
           fmt::format("claims {} bytes, but the file has {}; it is damaged or cut off", bytes,
                       file_bytes));
  if (bytes == 0 || layout == H5D_COMPACT) return;
  if (layout == H5D_CHUNKED)
    return check_chunks(dataset, creation, path, name, shape, element_bytes, file_bytes);
  const haddr_t address = H5Dget_offset(dataset);
  if (address == HADDR_UNDEF) refuse(path, name, "has no data; it was never written");
  if (address > static_cast<haddr_t>(file_bytes - bytes))
    refuse(path, name,
           fmt::format("reaches {} bytes beyond the end of the file; it is cut off",
                       address + static_cast<haddr_t>(bytes) - static_cast<haddr_t>(file_bytes)));
  if (H5Dget_storage_size(dataset) != static_cast<hsize_t>(bytes))
    refuse(path, name, "has another size than its shape and type say; it is damaged");
}

DatasetInfo examine(hid_t file, const std::string& path, const std::string& name,
                    int64_t file_bytes) {
  const H5Dataset dataset(
      checked(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path, name, "open the dataset"));
  DatasetInfo info;
  info.shape = read_shape(dataset.get(), path, name);
  const H5Type type(checked(H5Dget_type(dataset.get()), path, name, "read its type"));
  info.type = classify_type(type.get());
  if (info.type == StoredType::text && !info.shape.empty()) info.type = StoredType::other;
  const auto element = static_cast<int64_t>(H5Tget_size(type.get()));
  if (element <= 0) fail_hdf5(path, name, "read the size of its type");
  info.bytes = shape_bytes(info.shape, element);
  if (info.bytes < 0)
    refuse(path, name, "has the shape " + shape_text(info.shape) + ", whose size overflows");
  check_storage(dataset.get(), path, name, info.shape, info.bytes, element, file_bytes);
  if (info.type == StoredType::bf16) {  // uint16 is bf16 only where an attribute says so
    const bool marked = H5Aexists(dataset.get(), "element_type") > 0 &&
                        read_text_attribute(dataset.get(), path, name, "element_type") == "bf16";
    if (!marked) info.type = StoredType::other;
  }
  if (H5Aexists(dataset.get(), kChecksum) > 0) {
    int64_t sum = 0;
    read_number_attribute(dataset.get(), path, name, kChecksum, StoredType::int64, &sum);
    info.checksum = static_cast<uint64_t>(sum);
  }
  return info;
}

}  // namespace

void require_checked_headers(const std::string& path) {
  // The signature of HDF5 is 8 bytes long, the version stands behind it.
  char head[9] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof(head));
  const int version = static_cast<unsigned char>(head[8]);
  if (std::memcmp(head, "\x89HDF\r\n\x1a\n", 8) != 0 || version < 2 || version > 3)
    throw DataError(fmt::format(
        "{}: is an HDF5 file of an old form, without checksums in its headers; write it with the "
        "bounds of HDF5 1.8 or later (h5py: libver=\"v108\")",
        path));
}

std::map<std::string, DatasetInfo> index_datasets(hid_t file, const std::string& path,
                                                  int64_t file_bytes) {
  Walk walk;
  checked(H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, note_object, &walk, H5O_INFO_BASIC), path, "",
          "list its content; it is damaged");
  if (walk.stopped.empty())
    checked(H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, note_link, &walk), path, "",
            "list its links; it is damaged");
  if (!walk.stopped.empty()) throw DataError(path + ": " + walk.stopped);
  std::map<std::string, DatasetInfo> datasets;
  for (const std::string& name : walk.datasets)
    datasets.emplace(name, examine(file, path, name, file_bytes));
  return datasets;
}

namespace {

/// Opens an attribute and checks that it is one value of `expected`.
H5Attribute open_attribute(hid_t owner, const std::string& path, const std::string& object,
                           const std::string& name, StoredType expected, H5Type& type) {
  const std::string place = (object.empty() ? "the file" : object) + ", attribute " + name;
  if (H5Aexists(owner, name.c_str()) <= 0) refuse(path, place, "is missing");
  H5Attribute attribute(checked(H5Aopen(owner, name.c_str(), H5P_DEFAULT), path, place, "open it"));
  type = H5Type(checked(H5Aget_type(attribute.get()), path, place, "read its type"));
  const StoredType found = classify_type(type.get());
  if (found != expected)
    refuse(
        path, place,
        fmt::format("expected {}, found {}", stored_type_name(expected), stored_type_name(found)));
  const H5Space space(checked(H5Aget_space(attribute.get()), path, place, "read its shape"));
  if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR)
    refuse(path, place, "expected one value, found an array");
  return attribute;
}

}  // namespace

std::string read_text_attribute(hid_t owner, const std::string& path, const std::string& object,
                                const std::string& name) {
  H5Type type;
  const H5Attribute attribute = open_attribute(owner, path, object, name, StoredType::text, type);
  constexpr size_t kMostBytes = 1 << 16;  // of an attribute in an object header
  const size_t bytes = H5Tget_size(type.get());
  if (bytes == 0 || bytes > kMostBytes)
    refuse(path, object + ", attribute " + name, fmt::format("has an absurd length of {}", bytes));
  std::string text(bytes, '\0');
  checked(H5Aread(attribute.get(), type.get(), text.data()), path, name, "read the attribute");
  text.resize(text.find_last_not_of('\0') + 1);  // npos + 1 = 0
  return text;
}

void read_number_attribute(hid_t owner, const std::string& path, const std::string& object,
                           const std::string& name, StoredType expected, void* value) {
  H5Type type;
  const H5Attribute attribute = open_attribute(owner, path, object, name, expected, type);
  checked(H5Aread(attribute.get(), type.get(), value), path, name, "read the attribute");
}

namespace {

herr_t note_attribute(hid_t, const char* name, const H5A_info_t*, void* names) {
  try {
    static_cast<std::vector<std::string>*>(names)->push_back(name);
    return 0;
  } catch (const std::exception& e) {  // no memory; nothing may fly through C code
    return -1;
  }
}

}  // namespace

std::vector<std::string> attribute_names(hid_t owner, const std::string& path,
                                         const std::string& object) {
  std::vector<std::string> names;
  checked(H5Aiterate2(owner, H5_INDEX_NAME, H5_ITER_INC, nullptr, note_attribute, &names), path,
          object, "list its attributes");
  std::sort(names.begin(), names.end());
  return names;
}

std::string attribute_value(hid_t owner, const std::string& path, const std::string& object,
                            const std::string& name) {
  const H5Attribute attribute(
      checked(H5Aopen(owner, name.c_str(), H5P_DEFAULT), path, name, "open the attribute"));
  const H5Space space(checked(H5Aget_space(attribute.get()), path, name, "read its shape"));
  if (H5Sget_simple_extent_type(space.get()) != H5S_SCALAR) return "(an array)";
  const H5Type type(checked(H5Aget_type(attribute.get()), path, name, "read its type"));
  const StoredType stored = classify_type(type.get());
  if (stored == StoredType::text) return read_text_attribute(owner, path, object, name);
  if (stored == StoredType::int64) {
    int64_t value = 0;
    read_number_attribute(owner, path, object, name, stored, &value);
    return fmt::format("{}", value);
  }
  if (stored == StoredType::fp64) {
    double value = 0;
    read_number_attribute(owner, path, object, name, stored, &value);
    return fmt::format("{}", value);
  }
  return fmt::format("({})", stored_type_name(stored));
}

}  // namespace espalier
