// SPDX-License-Identifier: Apache-2.0
// Creation and access properties of tensor files.
#include "checkpoint/file_properties.hpp"

#include <algorithm>
#include <vector>

#include "checkpoint/ranks.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

constexpr unsigned kAlwaysCompact = 65535;

void keep_attributes_compact(hid_t properties, const std::string& file) {
  checked(H5Pset_obj_track_times(properties, false), file, "", "switch time stamps off");
  checked(H5Pset_attr_phase_change(properties, kAlwaysCompact, 0), file, "",
          "choose attribute storage");
}

}  // namespace

H5Properties make_group_properties(hid_t kind, const std::string& file) {
  H5Properties properties(checked(H5Pcreate(kind), file, "", "make group properties"));
  keep_attributes_compact(properties.get(), file);
  checked(H5Pset_link_creation_order(properties.get(), H5P_CRT_ORDER_TRACKED), file, "",
          "keep the order of links");
  checked(H5Pset_link_phase_change(properties.get(), kAlwaysCompact, 0), file, "",
          "choose link storage");
  return properties;
}

Shape chunk_shape(const Shape& shape, int64_t element_bytes, int64_t chunk_bytes) {
  if (shape_bytes(shape, element_bytes) <= chunk_bytes) return {};
  Shape chunk = shape;
  int64_t inner = shape_bytes(shape, element_bytes);
  for (int64_t& extent : chunk) {
    inner /= extent;  // bytes of one index of this dimension
    if (inner <= chunk_bytes) {
      extent = std::max<int64_t>(1, chunk_bytes / inner);
      break;
    }
    extent = 1;
  }
  return chunk;
}

H5Properties make_dataset_properties(const std::string& file, const FileOptions& options,
                                     const DatasetInfo& info) {
  H5Properties properties(
      checked(H5Pcreate(H5P_DATASET_CREATE), file, "", "make dataset properties"));
  keep_attributes_compact(properties.get(), file);
  Shape chunk;
  if (options.layout == StorageLayout::chunked && info.type != StoredType::text)
    chunk = chunk_shape(info.shape, stored_type_bytes(info.type), options.chunk_bytes);
  if (chunk.empty()) {
    checked(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), file, "", "choose the layout");
  } else {
    const std::vector<hsize_t> extents(chunk.begin(), chunk.end());
    checked(H5Pset_chunk(properties.get(), static_cast<int>(extents.size()), extents.data()), file,
            "", "choose the chunks");
  }
  checked(H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY), file, "", "reserve space");
  checked(H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER), file, "", "leave filling out");
  return properties;
}

H5Properties make_write_access(const std::string& file, const FileOptions& options,
                               const Ranks& ranks) {
  constexpr int64_t kLargestChunk = (int64_t{1} << 32) - 1;  // HDF5's
  ESPALIER_REQUIRE(options.chunk_bytes >= 8 && options.chunk_bytes <= kLargestChunk &&
                       options.alignment >= 1 && options.piece_bytes >= 8 &&
                       options.piece_bytes <= int64_t{1} << 30,
                   "{}: chunks of {}, alignment of {}, pieces of {} bytes", file,
                   options.chunk_bytes, options.alignment, options.piece_bytes);
  H5Properties access = ranks.shared_access(file, options.mpi_info);
  checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), file, "",
          "choose the format version");
  const auto alignment = static_cast<hsize_t>(options.alignment);
  checked(H5Pset_alignment(access.get(), alignment, alignment), file, "", "align datasets");
  return access;
}

}  // namespace espalier
