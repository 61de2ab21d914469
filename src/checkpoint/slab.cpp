// SPDX-License-Identifier: Apache-2.0
// Dataspaces, pieces and hyperslab selections from shapes.
#include "checkpoint/slab.hpp"

#include <algorithm>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

std::vector<hsize_t> to_hsize(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

int64_t elements(Shape::const_iterator first, Shape::const_iterator last) {
  return shape_bytes(Shape(first, last), 1);
}

/// How a slab is cut: along dimension `cut`, `step` indices a piece; the dimensions before it one
/// index at a time, those behind it whole.
struct Cut {
  int64_t cut = 0, step = 1, steps = 1, leading = 1, inner_bytes = 1;

  Cut(const Shape& extent, int64_t element_bytes, int64_t piece_bytes) {
    const auto dimensions = static_cast<int64_t>(extent.size());
    const auto inner = [&](int64_t d) {
      return element_bytes * elements(extent.begin() + d + 1, extent.end());
    };
    while (cut < dimensions - 1 && inner(cut) > piece_bytes) ++cut;
    inner_bytes = inner(cut);
    step = std::max<int64_t>(1, piece_bytes / inner_bytes);
    steps = (extent[static_cast<size_t>(cut)] + step - 1) / step;
    leading = elements(extent.begin(), extent.begin() + cut);
  }
};

/// Index tuple number `index` of a box, the last dimension fastest.
Shape unravel(int64_t index, Shape::const_iterator first, Shape::const_iterator last) {
  Shape at(static_cast<size_t>(last - first));
  for (size_t d = at.size(); d-- > 0; index /= first[static_cast<std::ptrdiff_t>(d)])
    at[d] = index % first[static_cast<std::ptrdiff_t>(d)];
  return at;
}

}  // namespace

H5Space make_space(const std::string& file, const std::string& name, const Shape& shape) {
  if (shape.empty()) return H5Space(checked(H5Screate(H5S_SCALAR), file, name, "make a scalar"));
  const std::vector<hsize_t> extents = to_hsize(shape);
  return H5Space(
      checked(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), file,
              name, "make its dataspace"));
}

void require_slab_inside(const std::string& name, const Shape& shape, const Shape& offset,
                         const Shape& extent) {
  ESPALIER_REQUIRE(offset.size() == shape.size() && extent.size() == shape.size(),
                   "{}: a slab of {} dimensions in a dataset of {}", name, extent.size(),
                   shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    ESPALIER_REQUIRE(offset[d] >= 0 && extent[d] >= 0 && offset[d] <= shape[d] &&
                         extent[d] <= shape[d] - offset[d],
                     "{}: slab {} at {} leaves the shape {}", name, shape_text(extent),
                     shape_text(offset), shape_text(shape));
}

int64_t piece_count(const Shape& extent, int64_t element_bytes, int64_t piece_bytes) {
  if (extent.empty()) return 1;
  if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return 0;
  const Cut c(extent, element_bytes, piece_bytes);
  return c.leading * c.steps;
}

SlabPiece cut_piece(const Shape& offset, const Shape& extent, int64_t element_bytes,
                    int64_t piece_bytes, int64_t index) {
  if (extent.empty()) return {offset, extent, 0};
  const Cut c(extent, element_bytes, piece_bytes);
  const auto cut = static_cast<size_t>(c.cut);
  const int64_t lead = index / c.steps, first = index % c.steps * c.step;
  SlabPiece piece{offset, extent, (lead * extent[cut] + first) * c.inner_bytes};
  const Shape at = unravel(lead, extent.begin(), extent.begin() + c.cut);
  for (size_t d = 0; d < cut; ++d) {
    piece.offset[d] += at[d];
    piece.extent[d] = 1;
  }
  piece.offset[cut] += first;
  piece.extent[cut] = std::min(c.step, extent[cut] - first);
  return piece;
}

int64_t run_count(const Shape& shape, const Shape& extent) {
  size_t whole = extent.size();  // dimensions from here on are whole
  while (whole > 0 && extent[whole - 1] == shape[whole - 1]) --whole;
  if (whole == 0) return elements(extent.begin(), extent.end()) > 0 ? 1 : 0;
  // One run takes all that it can of dimension whole - 1.
  const auto end = extent.begin() + static_cast<std::ptrdiff_t>(whole) - 1;
  return elements(end, extent.end()) > 0 ? elements(extent.begin(), end) : 0;
}

uint64_t checksum_slab(uint64_t seed, const Shape& shape, const Shape& offset, const Shape& extent,
                       const void* data, int64_t element_bytes) {
  const auto width = static_cast<int>(element_bytes);
  if (extent.empty()) return checksum_run(seed, 0, 0, data, 1, width);
  const auto* bytes = static_cast<const char*>(data);
  const int64_t columns = extent.back(), rows = elements(extent.begin(), extent.end() - 1);
  const auto row_number = [&](int64_t r) {
    if (extent.size() == 1) return int64_t{0};
    if (extent.size() == 2) return offset[0] + r;
    const Shape at = unravel(r, extent.begin(), extent.end() - 1);
    int64_t row = 0;
    for (size_t d = 0; d < at.size(); ++d) row = row * shape[d] + offset[d] + at[d];
    return row;
  };
  uint64_t sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    sum += checksum_run(seed, row_number(r), offset.back(), bytes + r * columns * element_bytes,
                        columns, width);
  return sum;
}

SlabSelection select_nothing(const std::string& file, const std::string& name, const Shape& shape) {
  SlabSelection selection{make_space(file, name, shape), make_space(file, name, shape)};
  checked(H5Sselect_none(selection.memory.get()), file, name, "select nothing");
  checked(H5Sselect_none(selection.file.get()), file, name, "select nothing");
  return selection;
}

SlabSelection select_piece(const std::string& file, const std::string& name, const Shape& shape,
                           const SlabPiece& piece) {
  SlabSelection selection{make_space(file, name, piece.extent), make_space(file, name, shape)};
  if (shape.empty()) return selection;
  checked(H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, to_hsize(piece.offset).data(),
                              nullptr, to_hsize(piece.extent).data(), nullptr),
          file, name, "select a slab");
  return selection;
}

}  // namespace espalier
