// SPDX-License-Identifier: Apache-2.0
// HDF5's error stack as text, and the mapping between stored types and HDF5 types.
#include "checkpoint/hdf5_handle.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace espalier {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "files are little-endian and are written without conversion");

// After a close that failed (a full disk) HDF5 keeps an identifier of freed memory, and its own
// clean-up, at exit or inside MPI_Finalize, then crashes and hides the error. Started before MPI
// and without an exit handler it runs neither; this room closes its files itself.
static const bool kHdf5Started = H5dont_atexit() >= 0 && H5open() >= 0;

void silence_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

namespace {

/// MPI-IO's messages come in several lines, and end in a blank.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

herr_t collect_error(unsigned, const H5E_error2_t* error, void* texts) {
  if (error->desc && *error->desc)
    static_cast<std::vector<std::string>*>(texts)->push_back(one_line(error->desc));
  return 0;
}

H5Type make_half_type() {
  // IEEE 754 binary16: sign 1, exponent 5 with bias 15, fraction 10 bits.
  H5Type type(H5Tcopy(H5T_IEEE_F32LE));
  if (!type.is_open() || H5Tset_fields(type.get(), 15, 10, 5, 0, 10) < 0 ||
      H5Tset_size(type.get(), 2) < 0 || H5Tset_ebias(type.get(), 15) < 0)
    throw InternalError("HDF5 refuses to make a half-precision type");
  return type;
}

H5Type make_text_type(size_t bytes) {
  H5Type type(H5Tcopy(H5T_C_S1));
  if (!type.is_open() || H5Tset_size(type.get(), bytes) < 0 ||
      H5Tset_strpad(type.get(), H5T_STR_NULLPAD) < 0 || H5Tset_cset(type.get(), H5T_CSET_UTF8) < 0)
    throw InternalError("HDF5 refuses to make a string type");
  return type;
}

}  // namespace

std::string hdf5_error_text() {
  std::vector<std::string> texts;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_error, &texts);
  if (texts.empty()) return "no message";
  const std::string& inner = texts.front();
  const std::string& outer = texts.back();
  return inner == outer ? inner : outer + ": " + inner;
}

void fail_hdf5(const std::string& file, const std::string& object, const std::string& action) {
  const std::string text = hdf5_error_text();
  throw DataError(object.empty()
                      ? fmt::format("{}: cannot {} (HDF5: {})", file, action, text)
                      : fmt::format("{}: {}: cannot {} (HDF5: {})", file, object, action, text));
}

H5Type make_file_type(StoredType type, size_t text_bytes) {
  switch (type) {
    case StoredType::fp32: return H5Type(H5Tcopy(H5T_IEEE_F32LE));
    case StoredType::fp64: return H5Type(H5Tcopy(H5T_IEEE_F64LE));
    case StoredType::bf16: return H5Type(H5Tcopy(H5T_STD_U16LE));
    case StoredType::fp16: return make_half_type();
    case StoredType::int32: return H5Type(H5Tcopy(H5T_STD_I32LE));
    case StoredType::int64: return H5Type(H5Tcopy(H5T_STD_I64LE));
    case StoredType::text: return make_text_type(text_bytes);
    case StoredType::other: break;
  }
  throw InternalError("a type that is never written");
}

StoredType classify_type(hid_t type) {
  if (H5Tget_class(type) == H5T_STRING)
    return H5Tis_variable_str(type) == 0 ? StoredType::text : StoredType::other;
  for (const StoredType candidate : {StoredType::fp32, StoredType::fp64, StoredType::bf16,
                                     StoredType::fp16, StoredType::int32, StoredType::int64})
    if (H5Tequal(type, make_file_type(candidate).get()) > 0) return candidate;
  return StoredType::other;
}

}  // namespace espalier
