// SPDX-License-Identifier: Apache-2.0
// Writing a dataset piece by piece.
#include "checkpoint/dataset_writer.hpp"

#include "core/checksum.hpp"

namespace espalier {

DatasetWriter::DatasetWriter(hid_t file, const std::string& path, const std::string& name,
                             const DatasetInfo& info, const FileOptions& options,
                             H5Properties transfer, HostPieces& host)
    : path_(path),
      name_(name),
      info_(info),
      options_(options),
      dataset_(checked(H5Dopen2(file, name.c_str(), H5P_DEFAULT), path, name, "open the dataset")),
      type_(make_file_type(info.type, static_cast<size_t>(info.bytes))),
      transfer_(std::move(transfer)),
      host_(host),
      seed_(checksum_seed(name)) {}

int64_t DatasetWriter::element_bytes() const {
  return info_.type == StoredType::text ? info_.bytes : stored_type_bytes(info_.type);
}

int64_t DatasetWriter::pieces(const Shape& extent) const {
  return piece_count(extent, element_bytes(), options_.piece_bytes);
}

void DatasetWriter::add_to_sum(const SlabPiece& piece, const void* data) {
  if (!options_.checksums) return;
  if (info_.type == StoredType::text)
    sum_ += checksum_run(seed_, 0, 0, data, info_.bytes, 1);
  else
    sum_ += checksum_slab(seed_, info_.shape, piece.offset, piece.extent, data, element_bytes());
}

void DatasetWriter::transfer(const SlabSelection& selection, const void* data) {
  checked(H5Dwrite(dataset_.get(), type_.get(), selection.memory.get(), selection.file.get(),
                   transfer_.get(), data),
          path_, name_, "write the dataset");
}

void DatasetWriter::write(const Shape& offset, const Shape& extent, const void* data,
                          int64_t piece) {
  const SlabPiece part = cut_piece(offset, extent, element_bytes(), options_.piece_bytes, piece);
  const void* from = host_.fetch(static_cast<const char*>(data) + part.byte_offset,
                                 shape_bytes(part.extent, element_bytes()));
  add_to_sum(part, from);
  write_unsummed(part, from);
}

void DatasetWriter::write_unsummed(const SlabPiece& piece, const void* data) {
  transfer(select_piece(path_, name_, info_.shape, piece), data);
}

void DatasetWriter::write_nothing() {
  static const char nothing = 0;  // HDF5 wants an address even so
  transfer(select_nothing(path_, name_, info_.shape), &nothing);
}

}  // namespace espalier
