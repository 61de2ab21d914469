// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state_slabs.hpp"

#include <algorithm>

#include "checkpoint/host_pieces.hpp"
#include "checkpoint/slab.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"

namespace espalier {

namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // as files are written and read

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
    targets.push_back({s.name, s.offset, s.extent, const_cast<void*>(s.data), s.type});
  return targets;
}

void add_group(TensorSlabs& slabs, const std::string& group) {
  for (TensorSlab& slab : slabs) slab.name = group + "/" + slab.name;
}

int64_t slab_bytes(const TensorSlabs& slabs) {
  int64_t bytes = 0;
  for (const TensorSlab& slab : slabs)
    bytes += elements(slab.extent) * stored_type_bytes(slab.type);
  return bytes;
}

TensorSlabs share_of_slabs(const TensorSlabs& slabs, int64_t part, int64_t parts) {
  ESPALIER_REQUIRE(0 <= part && part < parts, "share {} of {}", part, parts);
  if (parts == 1) return slabs;
  const auto total = static_cast<__int128>(slab_bytes(slabs));
  const auto first = static_cast<int64_t>(total * part / parts);
  const auto last = static_cast<int64_t>(total * (part + 1) / parts);
  TensorSlabs share;
  int64_t begin = 0;  // bytes before this slab
  for (const TensorSlab& slab : slabs) {
    const int64_t width = row_elements(slab) * stored_type_bytes(slab.type);
    const int64_t rows = slab.extent.front();
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
      cut.data = static_cast<const char*>(slab.data) + from * width;
      share.push_back(std::move(cut));
    }
    begin = end;
  }
  return share;
}

std::map<std::string, uint64_t> sum_slabs(const TensorSlabs& slabs) {
  std::map<std::string, uint64_t> sums;
  HostPieces host;
  for (const TensorSlab& slab : slabs) {
    // The number of a row follows from the inner extents alone, and of two there are none.
    ESPALIER_REQUIRE(slab.extent.size() <= 2, "{} has {} dimensions", slab.name,
                     slab.extent.size());
    const uint64_t seed = checksum_seed(slab.name);
    uint64_t& sum = sums[slab.name];
    const int64_t element_bytes = stored_type_bytes(slab.type);
    // What lies on a device comes in pieces; the sum does not depend on how it is cut.
    const int64_t most = device::is_device(slab.data) ? kPieceBytes : slab_bytes({slab});
    for (int64_t p = 0, n = piece_count(slab.extent, element_bytes, most); p < n; ++p) {
      const SlabPiece piece = cut_piece(slab.offset, slab.extent, element_bytes, most, p);
      const void* data = host.fetch(static_cast<const char*>(slab.data) + piece.byte_offset,
                                    elements(piece.extent) * element_bytes);
      sum += checksum_slab(seed, slab.extent, piece.offset, piece.extent, data, element_bytes);
    }
  }
  return sums;
}

const TensorSlabs& SlabSnapshot::take(const TensorSlabs& slabs) {
  const int64_t bytes = slab_bytes(slabs);
  if (memory_.size() < bytes) memory_ = PinnedBuffer<char>(bytes);
  copies_ = slabs;
  std::vector<HostCopy> copies;
  char* to = memory_.data();
  for (TensorSlab& slab : copies_) {
    copies.push_back({to, slab.data, elements(slab.extent) * stored_type_bytes(slab.type)});
    slab.data = to;
    to += copies.back().bytes;
  }
  copy_to_host(copies);
  return copies_;
}

}  // namespace espalier
