// SPDX-License-Identifier: Apache-2.0
// Dataspaces and hyperslab selections from shapes.
#include "checkpoint/slab.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace espalier {

namespace {

std::vector<hsize_t> to_hsize(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace

H5Space make_space(const std::string& file, const std::string& name, const Shape& shape) {
  if (shape.empty()) return H5Space(checked(H5Screate(H5S_SCALAR), file, name, "make a scalar"));
  const std::vector<hsize_t> extents = to_hsize(shape);
  return H5Space(
      checked(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), file,
              name, "make its dataspace"));
}

int64_t transfer_rounds(int64_t bytes) {
  constexpr int64_t kRoundBytes = int64_t{1} << 30;
  return std::max<int64_t>(1, (bytes + kRoundBytes - 1) / kRoundBytes);
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

namespace {

SlabPart make_empty_part(const std::string& file, const std::string& name, const Shape& shape) {
  SlabPart part{make_space(file, name, shape), make_space(file, name, shape), 0};
  checked(H5Sselect_none(part.memory.get()), file, name, "select nothing");
  checked(H5Sselect_none(part.file.get()), file, name, "select nothing");
  return part;
}

}  // namespace

SlabPart make_slab_part(const std::string& file, const std::string& name, const Shape& shape,
                        const Shape& offset, const Shape& extent, int64_t element_bytes,
                        int64_t round, int64_t rounds) {
  if (shape.empty()) {
    if (round > 0) return make_empty_part(file, name, shape);
    return {make_space(file, name, shape), make_space(file, name, shape), 0};
  }
  // Wide enough for rows * rounds: both products stay far below 2^126.
  const auto cut = [&](int64_t r) {
    return static_cast<int64_t>(static_cast<__int128>(extent[0]) * r / rounds);
  };
  const int64_t first = cut(round), last = cut(round + 1);
  const int64_t row_bytes = shape_bytes({extent.begin() + 1, extent.end()}, element_bytes);
  if (first == last || row_bytes == 0) return make_empty_part(file, name, shape);
  Shape start = offset, count = extent;
  start[0] += first;
  count[0] = last - first;
  SlabPart part{make_space(file, name, count), make_space(file, name, shape), first * row_bytes};
  checked(H5Sselect_hyperslab(part.file.get(), H5S_SELECT_SET, to_hsize(start).data(), nullptr,
                              to_hsize(count).data(), nullptr),
          file, name, "select a slab");
  return part;
}

}  // namespace espalier
