// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_slabs.hpp"

#include <algorithm>
#include <cstring>

#include "checkpoint/slab.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

int64_t elements(const Shape& extent) {
  int64_t n = 1;
  for (const int64_t e : extent) n *= e;
  return n;
}

// What is cut: rows of a matrix, elements of a vector.
int64_t row_elements(const TensorSlab& slab) {
  return elements(slab.extent) / std::max<int64_t>(1, slab.extent.front());
}

}  // namespace

TensorTargets targets_of(const TensorSlabs& slabs) {
  TensorTargets targets;
  // Slabs promise not to be written through; who asks for targets holds the buffers themselves.
  for (const TensorSlab& s : slabs)
    targets.push_back({s.name, s.offset, s.extent, const_cast<void*>(s.data)});
  return targets;
}

void add_group(TensorSlabs& slabs, const std::string& group) {
  for (TensorSlab& slab : slabs) slab.name = group + "/" + slab.name;
}

int64_t slab_bytes(const TensorSlabs& slabs, int64_t element_bytes) {
  int64_t bytes = 0;
  for (const TensorSlab& slab : slabs) bytes += elements(slab.extent) * element_bytes;
  return bytes;
}

TensorSlabs share_of_slabs(const TensorSlabs& slabs, int64_t element_bytes, int64_t part,
                           int64_t parts) {
  ESPALIER_REQUIRE(0 <= part && part < parts, "share {} of {}", part, parts);
  if (parts == 1) return slabs;
  const auto total = static_cast<__int128>(slab_bytes(slabs, 1));
  const auto first = static_cast<int64_t>(total * part / parts);
  const auto last = static_cast<int64_t>(total * (part + 1) / parts);
  TensorSlabs share;
  int64_t begin = 0;  // elements before this slab
  for (const TensorSlab& slab : slabs) {
    const int64_t width = row_elements(slab), rows = slab.extent.front();
    const int64_t end = begin + rows * width;
    // A row belongs to the share in which it begins.
    const auto row_from = [&](int64_t border) {
      if (border <= begin) return int64_t{0};
      if (border >= end) return rows;
      return (border - begin + width - 1) / width;
    };
    const int64_t from = row_from(first), to = row_from(last);
    if (from < to) {
      TensorSlab cut = slab;
      cut.offset.front() += from;
      cut.extent.front() = to - from;
      cut.data = static_cast<const char*>(slab.data) + from * width * element_bytes;
      share.push_back(std::move(cut));
    }
    begin = end;
  }
  return share;
}

std::map<std::string, uint64_t> sum_slabs(const TensorSlabs& slabs, int64_t element_bytes) {
  std::map<std::string, uint64_t> sums;
  for (const TensorSlab& slab : slabs) {
    // The number of a row follows from the inner extents alone, and of two there are none.
    ESPALIER_REQUIRE(slab.extent.size() <= 2, "{} has {} dimensions", slab.name,
                     slab.extent.size());
    sums[slab.name] += checksum_slab(checksum_seed(slab.name), slab.extent, slab.offset,
                                     slab.extent, slab.data, element_bytes);
  }
  return sums;
}

const TensorSlabs& SlabSnapshot::take(const TensorSlabs& slabs, int64_t element_bytes) {
  memory_.resize(std::max(memory_.size(), static_cast<size_t>(slab_bytes(slabs, element_bytes))));
  copies_ = slabs;
  char* to = memory_.data();
  for (TensorSlab& slab : copies_) {
    const auto size = static_cast<size_t>(elements(slab.extent) * element_bytes);
    std::memcpy(to, slab.data, size);
    slab.data = to;
    to += size;
  }
  return copies_;
}

}  // namespace espalier
