// SPDX-License-Identifier: Apache-2.0
// The exchange of slabs for bands of whole rows.
#include "checkpoint/gathered_write.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "grid/comm.hpp"

namespace espalier {

namespace {

/// The part of a slab that lies in a band: some of its rows, so contiguous in memory like it.
struct BandPart {
  Shape offset, extent;
  int64_t bytes = 0, byte_offset = 0;  // in the slab's data
};

struct Band {
  int64_t first = 0, count = 0;  // rows
};

BandPart cut_by_band(const Shape& offset, const Shape& extent, const Band& band,
                     int64_t element_bytes) {
  BandPart part{offset, extent};
  const int64_t first = std::max(offset[0], band.first);
  const int64_t last = std::min(offset[0] + extent[0], band.first + band.count);
  part.offset[0] = first;
  part.extent[0] = std::max<int64_t>(0, last - first);
  part.bytes = shape_bytes(part.extent, element_bytes);
  if (part.bytes == 0) return part;
  part.byte_offset = part.bytes / part.extent[0] * (first - offset[0]);
  return part;
}

/// The slabs of all ranks, [rank][slab][offset..., extent...].
class AllSlabs {
 public:
  AllSlabs(const Comm& comm, size_t dimensions, const std::vector<const TensorSlab*>& own,
           int64_t most_slabs)
      : dimensions_(dimensions), most_(static_cast<size_t>(most_slabs)) {
    std::vector<int64_t> mine(most_ * 2 * dimensions_, 0);
    for (size_t s = 0; s < own.size(); ++s) {
      std::copy(own[s]->offset.begin(), own[s]->offset.end(), mine.begin() + at(s));
      std::copy(own[s]->extent.begin(), own[s]->extent.end(), mine.begin() + at(s) + width());
    }
    all_.resize(mine.size() * static_cast<size_t>(comm.size()));
    comm.all_gather(mine.data(), static_cast<int64_t>(mine.size()), all_.data());
  }
  BandPart part(int rank, size_t slab, const Band& band, int64_t element_bytes) const {
    const auto from = all_.begin() + at(static_cast<size_t>(rank) * most_ + slab);
    return cut_by_band(Shape(from, from + width()), Shape(from + width(), from + 2 * width()), band,
                       element_bytes);
  }
  size_t most() const { return most_; }

 private:
  std::ptrdiff_t width() const { return static_cast<std::ptrdiff_t>(dimensions_); }
  std::ptrdiff_t at(size_t slab) const { return static_cast<std::ptrdiff_t>(slab) * 2 * width(); }

  size_t dimensions_, most_;
  std::vector<int64_t> all_;
};

/// Copies a part, contiguous at `from`, to its place in a buffer that holds the band.
void place_in_band(const BandPart& part, const char* from, const Shape& shape, const Band& band,
                   int64_t element_bytes, char* to) {
  const size_t last = shape.size() - 1;
  const int64_t run = part.extent[last] * element_bytes;
  Shape at(shape.size(), 0);  // of the run, in the part
  for (int64_t done = 0; done < part.bytes; done += run) {
    int64_t index = part.offset[0] + at[0] - band.first;
    for (size_t d = 1; d <= last; ++d) index = index * shape[d] + part.offset[d] + at[d];
    std::memcpy(to + index * element_bytes, from + done, static_cast<size_t>(run));
    for (size_t d = last; d-- > 0 && ++at[d] == part.extent[d];) at[d] = 0;
  }
}

/// What has come of a band: a part, and where its data stands.
struct Arrival {
  BandPart part;
  const char* data;
};

class GatheredWrite {
 public:
  GatheredWrite(DatasetWriter& out, const Comm& comm, const DatasetInfo& info,
                const std::vector<const TensorSlab*>& own, int64_t most_slabs, int64_t piece_bytes)
      : out_(out),
        comm_(comm),
        info_(info),
        own_(own),
        all_(comm, info.shape.size(), own, most_slabs),
        element_bytes_(stored_type_bytes(info.type)),
        row_bytes_(info.bytes / info.shape[0]),
        band_rows_(std::max<int64_t>(1, piece_bytes / row_bytes_)) {}

  int64_t rounds() const {
    const int64_t rows = band_rows_ * comm_.size();
    return (info_.shape[0] + rows - 1) / rows;
  }
  void run(int64_t round, const Attempt& attempt) {
    arrivals_.clear();
    const std::vector<OutPiece> send = parts_to_send(round);
    const Band mine = band(round, comm_.rank());
    const std::vector<InPiece> receive = parts_to_receive(mine);
    comm_.start_exchange(send, receive, 0).wait();
    write(mine, attempt);
  }

 private:
  Band band(int64_t round, int rank) const {
    const int64_t rows = info_.shape[0];
    const int64_t first = std::min(rows, (round * comm_.size() + rank) * band_rows_);
    return {first, std::min(band_rows_, rows - first)};
  }
  std::vector<OutPiece> parts_to_send(int64_t round);
  std::vector<InPiece> parts_to_receive(const Band& mine);
  void write(const Band& mine, const Attempt& attempt);

  DatasetWriter& out_;
  const Comm& comm_;
  const DatasetInfo& info_;
  const std::vector<const TensorSlab*>& own_;
  const AllSlabs all_;
  const int64_t element_bytes_, row_bytes_, band_rows_;
  std::vector<Arrival> arrivals_;
  HostPieces host_;
  std::vector<char> received_, whole_;
};

std::vector<OutPiece> GatheredWrite::parts_to_send(int64_t round) {
  std::vector<BandPart> parts;
  std::vector<int> ranks;
  std::vector<HostPieces::Piece> data;
  for (int r = 0; r < comm_.size(); ++r)
    for (const TensorSlab* slab : own_) {
      const BandPart part = cut_by_band(slab->offset, slab->extent, band(round, r), element_bytes_);
      if (part.bytes == 0) continue;
      parts.push_back(part);
      ranks.push_back(r);
      data.push_back({static_cast<const char*>(slab->data) + part.byte_offset, part.bytes});
    }
  host_.fetch(data);
  std::vector<OutPiece> send;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto* from = static_cast<const char*>(data[i].data);
    out_.add_to_sum({parts[i].offset, parts[i].extent, parts[i].byte_offset}, from);
    if (ranks[i] == comm_.rank())
      arrivals_.push_back({parts[i], from});
    else
      send.push_back({from, parts[i].bytes, ranks[i]});
  }
  return send;
}

std::vector<InPiece> GatheredWrite::parts_to_receive(const Band& mine) {
  std::vector<InPiece> receive;
  received_.resize(static_cast<size_t>(mine.count * row_bytes_));
  size_t place = 0;
  for (int r = 0; r < comm_.size(); ++r)
    for (size_t s = 0; r != comm_.rank() && s < all_.most(); ++s) {
      const BandPart part = all_.part(r, s, mine, element_bytes_);
      if (part.bytes == 0) continue;
      const auto bytes = static_cast<size_t>(part.bytes);
      ESPALIER_REQUIRE(bytes <= received_.size() - place, "the slabs of ranks overlap in rows {}",
                       mine.first);
      receive.push_back({received_.data() + place, part.bytes, r});
      arrivals_.push_back({part, received_.data() + place});
      place += bytes;
    }
  return receive;
}

void GatheredWrite::write(const Band& mine, const Attempt& attempt) {
  int64_t covered = 0;
  for (const Arrival& a : arrivals_) covered += a.part.bytes;
  if (covered == 0) return;
  if (covered < mine.count * row_bytes_) {
    // What no rank holds may have been written before, and stays.
    for (const Arrival& a : arrivals_)
      attempt([&] { out_.write_unsummed({a.part.offset, a.part.extent, 0}, a.data); });
    return;
  }
  whole_.resize(static_cast<size_t>(mine.count * row_bytes_));
  for (const Arrival& a : arrivals_)
    place_in_band(a.part, a.data, info_.shape, mine, element_bytes_, whole_.data());
  Shape offset(info_.shape.size(), 0), extent = info_.shape;
  offset[0] = mine.first;
  extent[0] = mine.count;
  attempt([&] { out_.write_unsummed({offset, extent, 0}, whole_.data()); });
}

}  // namespace

void write_gathered(DatasetWriter& out, const Comm& comm, const DatasetInfo& info,
                    const std::vector<const TensorSlab*>& own, int64_t most_slabs,
                    int64_t piece_bytes, const Attempt& attempt) {
  if (info.bytes == 0) return;
  GatheredWrite gathered(out, comm, info, own, most_slabs, piece_bytes);
  for (int64_t round = 0, rounds = gathered.rounds(); round < rounds; ++round)
    gathered.run(round, attempt);
}

}  // namespace espalier
