// SPDX-License-Identifier: Apache-2.0
// Private to this room: HDF5 identifiers that close themselves, and checked calls whose errors
// carry HDF5's own words.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "checkpoint/stored_type.hpp"

namespace espalier {

/// Owns one HDF5 identifier; `Close` is the function that gives it back.
template <herr_t (*Close)(hid_t)>
class H5Handle {
 public:
  H5Handle() = default;
  explicit H5Handle(hid_t id) : id_(id) {}
  ~H5Handle() { reset(); }
  H5Handle(H5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  H5Handle& operator=(H5Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }
  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }
  /// Hands the identifier to a caller that closes it itself and looks at the result.
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  void reset() {
    if (id_ >= 0) Close(id_);
    id_ = H5I_INVALID_HID;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using H5File = H5Handle<H5Fclose>;
using H5Group = H5Handle<H5Gclose>;
using H5Dataset = H5Handle<H5Dclose>;
using H5Space = H5Handle<H5Sclose>;
using H5Type = H5Handle<H5Tclose>;
using H5Properties = H5Handle<H5Pclose>;
using H5Attribute = H5Handle<H5Aclose>;

/// HDF5 prints its error stack by itself unless told not to; the thread that calls this stays
/// quiet.
void silence_hdf5();

/// The innermost and the outermost message of HDF5's current error stack.
std::string hdf5_error_text();

/// Throws DataError "FILE: OBJECT: cannot ACTION (HDF5: ...)". `object` may be empty.
[[noreturn]] void fail_hdf5(const std::string& file, const std::string& object,
                            const std::string& action);

/// The result of an HDF5 call, or fail_hdf5 if it is negative.
template <class R>
R checked(R result, const std::string& file, const std::string& object, const char* action) {
  if (result < 0) fail_hdf5(file, object, action);
  return result;
}

/// The file type of a stored type, little-endian. `text_bytes` is the length of a text.
H5Type make_file_type(StoredType type, size_t text_bytes = 0);

/// What a type found in a file is; bf16 cannot be seen here, its attribute tells it.
StoredType classify_type(hid_t type);

}  // namespace espalier
