// SPDX-License-Identifier: Apache-2.0
// A tensor in pieces of bounded size: what reads or compares files of any size goes piece by piece,
// and the ranks share the pieces.
#pragma once

#include <string>

#include "checkpoint/tensor_file.hpp"

namespace espalier {

/// The pieces of a tensor, each a hyperslab that is one run of bytes in row-major order and has at
/// most `most_bytes` (but one element at least). Together they hold every element once.
/// Shapes  any; a scalar is one piece without dimensions, a tensor without elements has none
class PieceCut {
 public:
  PieceCut(const Shape& shape, int64_t element_bytes, int64_t most_bytes);

  int64_t count() const { return outer_ * parts_; }
  struct Piece {
    Shape offset, extent;
    int64_t elements = 1;
  };
  Piece piece(int64_t number) const;  ///< 0 <= number < count()

 private:
  Shape shape_;
  size_t cut_ = 0;      // the dimension that is cut; before it extents of 1, behind it whole ones
  int64_t outer_ = 1;   // product of the extents before it
  int64_t length_ = 1;  // most indices of the cut dimension in a piece
  int64_t parts_ = 1;   // pieces along it
};

/// Reads every piece of a dataset of numbers once, the ranks in turn, for its checksum: `number`,
/// the dataset's place in a list, says whose turn is first. Not collective.
void count_share(TensorFileReader& file, const std::string& name, int64_t number,
                 const Comm* ranks);

}  // namespace espalier
