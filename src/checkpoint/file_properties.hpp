// SPDX-License-Identifier: Apache-2.0
// Private to this room: HDF5's creation properties, as tensor files want them. Everything that
// could make equal content unequal bytes is fixed in them: no time stamps, early allocation, links
// and attributes kept in object headers (HDF5's dense storage takes other addresses under MPI than
// without).
#pragma once

#include "checkpoint/hdf5_handle.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// Of a group (H5P_GROUP_CREATE) or, with H5P_FILE_CREATE, of the root group.
H5Properties make_group_properties(hid_t kind, const std::string& file);

H5Properties make_dataset_properties(const std::string& file, const FileOptions& options,
                                     const DatasetInfo& info);

/// Extents of the chunks of a dataset: as many whole rows (first dimension) as fit into
/// `chunk_bytes`, or of a row as much as fits. Empty where one chunk would hold all.
Shape chunk_shape(const Shape& shape, int64_t element_bytes, int64_t chunk_bytes);

/// Access properties for writing: shared with `ranks`, aligned, one format version.
class Ranks;
H5Properties make_write_access(const std::string& file, const FileOptions& options,
                               const Ranks& ranks);

}  // namespace espalier
