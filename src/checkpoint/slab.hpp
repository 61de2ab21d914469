// SPDX-License-Identifier: Apache-2.0
// Private to this room: hyperslabs of a dataset, cut into pieces, selected and summed.
#pragma once

#include "checkpoint/hdf5_handle.hpp"

namespace espalier {

/// A part of a slab, contiguous in memory like the slab.
struct SlabPiece {
  Shape offset, extent;
  int64_t byte_offset = 0;  // of the piece in the slab's data
};

/// Pieces of at most `piece_bytes` (or one element) that a slab is cut into; none without elements.
int64_t piece_count(const Shape& extent, int64_t element_bytes, int64_t piece_bytes);
/// Piece `index` of them, in the order of memory.
SlabPiece cut_piece(const Shape& offset, const Shape& extent, int64_t element_bytes,
                    int64_t piece_bytes, int64_t index);

/// Pieces in which a slab lies in a contiguous dataset of this shape; 0 without elements.
int64_t run_count(const Shape& shape, const Shape& extent);

/// What a slab adds to the checksum of its dataset; `seed` is checksum_seed(its name).
uint64_t checksum_slab(uint64_t seed, const Shape& shape, const Shape& offset, const Shape& extent,
                       const void* data, int64_t element_bytes);

/// A selection in memory and in the file.
struct SlabSelection {
  H5Space memory, file;
};
SlabSelection select_piece(const std::string& file, const std::string& name, const Shape& shape,
                           const SlabPiece& piece);
SlabSelection select_nothing(const std::string& file, const std::string& name, const Shape& shape);

/// Throws InternalError unless the slab lies inside the dataset.
void require_slab_inside(const std::string& name, const Shape& shape, const Shape& offset,
                         const Shape& extent);

/// A simple dataspace, or the scalar one for no dimensions.
H5Space make_space(const std::string& file, const std::string& name, const Shape& shape);

}  // namespace espalier
