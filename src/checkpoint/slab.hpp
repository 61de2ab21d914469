// SPDX-License-Identifier: Apache-2.0
// Private to this room: hyperslabs of a dataset, cut into parts that MPI can count.
#pragma once

#include "checkpoint/hdf5_handle.hpp"

namespace espalier {

/// Part `round` of a slab in memory and in the file; nothing is selected where it is empty.
struct SlabPart {
  H5Space memory, file;
  int64_t byte_offset = 0;  // of the part in the caller's data
};

/// Parts in which a dataset of `bytes` is transferred, at most about 1 GiB each. It follows from
/// the dataset alone, so that all ranks make the same number of collective calls.
int64_t transfer_rounds(int64_t bytes);

/// `shape` is the dataset's, `offset` and `extent` the slab's; the rows (first dimension) of the
/// slab are divided over the rounds. A scalar is one part in round 0, with an empty extent.
SlabPart make_slab_part(const std::string& file, const std::string& name, const Shape& shape,
                        const Shape& offset, const Shape& extent, int64_t element_bytes,
                        int64_t round, int64_t rounds);

/// Throws InternalError unless the slab lies inside the dataset.
void require_slab_inside(const std::string& name, const Shape& shape, const Shape& offset,
                         const Shape& extent);

/// A simple dataspace, or the scalar one for no dimensions.
H5Space make_space(const std::string& file, const std::string& name, const Shape& shape);

}  // namespace espalier
