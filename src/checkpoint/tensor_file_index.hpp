// SPDX-License-Identifier: Apache-2.0
// Private to this room: what a file claims to hold, checked before anything is read.
#pragma once

#include <map>
#include <string>

#include "checkpoint/hdf5_handle.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// Every dataset that hangs in the file by plain links. Refused with a DataError: datasets that are
/// neither contiguous nor compact, lie in other files, have no data, exceed the file's size, or
/// whose sizes overflow.
std::map<std::string, DatasetInfo> index_datasets(hid_t file, const std::string& path,
                                                  int64_t file_bytes);

/// A text attribute of an open object; throws unless it is one fixed-length string.
std::string read_text_attribute(hid_t owner, const std::string& path, const std::string& object,
                                const std::string& name);

/// One number of exactly this type.
void read_number_attribute(hid_t owner, const std::string& path, const std::string& object,
                           const std::string& name, StoredType type, void* value);

}  // namespace espalier
