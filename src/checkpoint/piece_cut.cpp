// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/piece_cut.hpp"

#include <algorithm>
#include <vector>

#include "checkpoint/ranks.hpp"
#include "core/error.hpp"

namespace espalier {

PieceCut::PieceCut(const Shape& shape, int64_t element_bytes, int64_t most_bytes) : shape_(shape) {
  ESPALIER_REQUIRE(element_bytes > 0 && most_bytes > 0 && shape_bytes(shape, element_bytes) >= 0,
                   "pieces of {} bytes of {}", most_bytes, shape_text(shape));
  if (shape.empty()) return;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    parts_ = 0;
    return;
  }
  int64_t inner = element_bytes;  // bytes of one index of the cut dimension
  for (size_t d = 1; d < shape.size(); ++d) inner *= shape[d];
  while (cut_ + 1 < shape.size() && inner > most_bytes) {
    outer_ *= shape[cut_];
    ++cut_;
    inner /= shape[cut_];
  }
  length_ = std::max<int64_t>(1, most_bytes / inner);
  parts_ = (shape[cut_] - 1) / length_ + 1;
}

PieceCut::Piece PieceCut::piece(int64_t number) const {
  ESPALIER_REQUIRE(number >= 0 && number < count(), "piece {} of {}", number, count());
  Piece p{Shape(shape_.size(), 0), shape_, 1};
  if (shape_.empty()) return p;
  int64_t outer = number / parts_;
  for (size_t d = cut_; d-- > 0; outer /= shape_[d]) {
    p.offset[d] = outer % shape_[d];
    p.extent[d] = 1;
  }
  p.offset[cut_] = number % parts_ * length_;
  p.extent[cut_] = std::min(length_, shape_[cut_] - p.offset[cut_]);
  for (const int64_t extent : p.extent) p.elements *= extent;
  return p;
}

void count_share(TensorFileReader& file, const std::string& name, int64_t number,
                 const Comm* ranks) {
  constexpr int64_t kPieceBytes = int64_t{8} << 20;
  const Ranks all(ranks);
  const DatasetInfo& info = file.info(name);
  const int64_t element_bytes = stored_type_bytes(info.type);
  const PieceCut cut(info.shape, element_bytes, kPieceBytes);
  std::vector<char> data;
  for (int64_t i = 0; i < cut.count(); ++i) {
    if ((i + number) % all.size() != all.rank()) continue;
    const PieceCut::Piece piece = cut.piece(i);
    data.resize(static_cast<size_t>(piece.elements * element_bytes));
    file.read_slab(name, info.type, piece.offset, piece.extent, data.data(), Count::once);
  }
}

}  // namespace espalier
