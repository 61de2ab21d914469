// SPDX-License-Identifier: Apache-2.0
// Private to this room: what a file claims to hold, checked before anything is read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/hdf5_handle.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// Refuses HDF5 files whose headers carry no checksums (superblocks 0 and 1): from a damaged one of
/// these HDF5 may take gigabytes of memory before anything here sees it. Errors  DataError
void require_checked_headers(const std::string& path);

/// Every dataset in the file. Refused with a DataError: soft and external links, second names of an
/// object, and datasets that are filtered or virtual, lie in other files, have no data or not all,
/// exceed the file's size, or whose sizes overflow.
std::map<std::string, DatasetInfo> index_datasets(hid_t file, const std::string& path,
                                                  int64_t file_bytes);

/// A text attribute of an open object; throws unless it is one fixed-length string.
std::string read_text_attribute(hid_t owner, const std::string& path, const std::string& object,
                                const std::string& name);

/// The names of the attributes of an open object, sorted.
std::vector<std::string> attribute_names(hid_t owner, const std::string& path,
                                         const std::string& object);

/// The value of an attribute as text: of a text, an int64 or an fp64; "(...)" for other kinds.
std::string attribute_value(hid_t owner, const std::string& path, const std::string& object,
                            const std::string& name);

/// One number of exactly this type.
void read_number_attribute(hid_t owner, const std::string& path, const std::string& object,
                           const std::string& name, StoredType type, void* value);

}  // namespace espalier
