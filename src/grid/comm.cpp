// SPDX-License-Identifier: Apache-2.0
// Collective and point-to-point operations by nonblocking MPI calls, and what they count.
#include "grid/comm.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.hpp"
#include "grid/device_transfer.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

constexpr int kExchangeTag = Comm::kTags;  // + stream
constexpr int kAllToAllTag = Comm::kTags + Comm::kStreams;
constexpr int kAllGatherTag = kAllToAllTag + 1;  // below 32767, the least that MPI offers

MPI_Datatype mpi_type(ScalarType type) {
  switch (type) {
    case ScalarType::int32: return MPI_INT32_T;
    case ScalarType::int64: return MPI_INT64_T;
    case ScalarType::uint64: return MPI_UINT64_T;
    case ScalarType::fp32: return MPI_FLOAT;
    case ScalarType::fp64: return MPI_DOUBLE;
  }
  return MPI_DATATYPE_NULL;
}

int64_t scalar_bytes(ScalarType type) {
  return type == ScalarType::int32 || type == ScalarType::fp32 ? 4 : 8;
}

MPI_Op mpi_op(ReduceOp op) {
  return op == ReduceOp::sum ? MPI_SUM : op == ReduceOp::max ? MPI_MAX : MPI_MIN;
}

char* at(void* base, int64_t offset) {
  return static_cast<char*>(base) + offset;
}
const char* at(const void* base, int64_t offset) {
  return static_cast<const char*>(base) + offset;
}

bool is_on_device(const void* data) {
  if constexpr (device::kPresent) return device::is_device(data);
  return false;
}

void copy_unless_same(void* to, const void* from, int64_t bytes) {
  if (to == from || bytes <= 0) return;
  if (is_on_device(to) || is_on_device(from))
    device::copy(to, from, bytes);
  else
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace

Comm::Comm(MPI_Comm handle, const char* axis) : handle_(handle), axis_(axis) {
  ESPALIER_MPI(MPI_Comm_rank(handle_, &rank_));
  ESPALIER_MPI(MPI_Comm_size(handle_, &size_));
  if constexpr (device::kPresent) queue_ = std::make_shared<PostQueue>();
}

Comm Comm::duplicate(const char* axis) const {
  MPI_Comm copy = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Comm_dup(handle_, &copy));
  return Comm(copy, axis);
}

Comm& Comm::operator=(Comm&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(axis_, other.axis_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(call_limit_, other.call_limit_);
  std::swap(stats_, other.stats_);
  std::swap(queue_, other.queue_);
  return *this;
}

Comm::~Comm() {
  // What was started must still be handed to MPI under this communicator.
  while (queue_ != nullptr && !queue_->is_empty() && std::uncaught_exceptions() == 0)
    queue_->push();
  if (handle_ != MPI_COMM_NULL) MPI_Comm_free(&handle_);
}

CommStats Comm::take_stats() const {
  return std::exchange(*stats_, CommStats{});
}

int64_t Comm::elements_a_call(int64_t width) const {
  return std::max<int64_t>(call_limit_ / width, 1);
}

Request Comm::begin(const char* operation, int64_t bytes) const {
  stats_->bytes += bytes;
  ++stats_->calls;
  return Request(stats_, axis_, operation);
}

void Comm::require_rank(int rank, const char* operation) const {
  ESPALIER_REQUIRE(rank >= 0 && rank < size_, "{} with rank {} of the {} ranks of axis {}",
                   operation, rank, size_, axis_);
}

void Comm::require_host(const void* data, const char* operation) const {
  ESPALIER_REQUIRE(!is_on_device(data), "{} over {} of device memory", operation, axis_);
}

Request Comm::start_all_reduce(void* data, int64_t count, ScalarType type, ReduceOp op) const {
  require_host(data, "all_reduce");
  ESPALIER_REQUIRE(count >= 0, "all_reduce of {} elements over {}", count, axis_);
  if (size_ == 1) return {};
  const int64_t width = scalar_bytes(type), most = elements_a_call(width);
  Request request = begin("all_reduce", 2 * (count * width * (size_ - 1) / size_));
  for (int64_t first = 0; first < count; first += most) {
    const int part = static_cast<int>(std::min(most, count - first));
    ESPALIER_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, first * width), part, mpi_type(type),
                                mpi_op(op), handle_, request.add()));
  }
  return request;
}

Request Comm::start_reduce_scatter(const void* all, int64_t count, void* own, ScalarType type,
                                   ReduceOp op) const {
  require_host(all, "reduce_scatter");
  require_host(own, "reduce_scatter");
  ESPALIER_REQUIRE(count >= 0, "reduce_scatter of {} elements over {}", count, axis_);
  const int64_t width = scalar_bytes(type), most = elements_a_call(width);
  if (size_ == 1) {
    copy_unless_same(own, all, count * width);
    return {};
  }
  Request request = begin("reduce_scatter", count * width * (size_ - 1));
  if (count * size_ <= most) {
    ESPALIER_MPI(MPI_Ireduce_scatter_block(all, own, static_cast<int>(count), mpi_type(type),
                                           mpi_op(op), handle_, request.add()));
    return request;
  }
  // Parts of a block are not contiguous over ranks, so longer ones go as one reduction a rank.
  for (int root = 0; root < size_; ++root)
    for (int64_t first = 0; first < count; first += most) {
      const int part = static_cast<int>(std::min(most, count - first));
      ESPALIER_MPI(MPI_Ireduce(at(all, (root * count + first) * width), at(own, first * width),
                               part, mpi_type(type), mpi_op(op), root, handle_, request.add()));
    }
  return request;
}

Request Comm::start_all_gather_bytes(const void* own, int64_t bytes, void* all) const {
  ESPALIER_REQUIRE(bytes >= 0, "all_gather of {} bytes over {}", bytes, axis_);
  void* place = at(all, rank_ * bytes);
  if (size_ == 1) {
    copy_unless_same(place, own, bytes);
    return {};
  }
  Request request = begin("all_gather", bytes * (size_ - 1));
  if (bytes * size_ <= call_limit_ && !is_on_device(own) && !is_on_device(all)) {
    const int count = static_cast<int>(bytes);
    ESPALIER_MPI(MPI_Iallgather(own == place ? MPI_IN_PLACE : own, count, MPI_BYTE, all, count,
                                MPI_BYTE, handle_, request.add()));
    return request;
  }
  copy_unless_same(place, own, bytes);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) add_receive(request, {at(all, r * bytes), bytes, r}, kAllGatherTag);
  for (int r = 0; r < size_; ++r)
    if (r != rank_) add_send(request, {own, bytes, r}, kAllGatherTag);
  return request;
}

Request Comm::start_all_to_all_bytes(const void* send, void* receive,
                                     const std::vector<int64_t>& send_bytes,
                                     const std::vector<int64_t>& receive_bytes) const {
  const auto ranks = static_cast<size_t>(size_);
  ESPALIER_REQUIRE(send_bytes.size() == ranks && receive_bytes.size() == ranks,
                   "all_to_all over {}: {} and {} counts for {} ranks", axis_, send_bytes.size(),
                   receive_bytes.size(), size_);
  const auto own = static_cast<size_t>(rank_);
  ESPALIER_REQUIRE(send_bytes[own] == receive_bytes[own],
                   "all_to_all over {}: rank {} sends itself {} bytes but expects {}", axis_, rank_,
                   send_bytes[own], receive_bytes[own]);
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  int64_t sent = 0, from = 0, to = 0;
  for (size_t r = 0; r < ranks; from += send_bytes[r], to += receive_bytes[r], ++r) {
    if (r == own) {
      copy_unless_same(at(receive, to), at(send, from), send_bytes[r]);
      continue;
    }
    out.push_back({at(send, from), send_bytes[r], static_cast<int>(r)});
    in.push_back({at(receive, to), receive_bytes[r], static_cast<int>(r)});
    sent += send_bytes[r];
  }
  if (size_ == 1) return {};
  Request request = begin("all_to_all", sent);
  for (const InPiece& piece : in) add_receive(request, piece, kAllToAllTag);
  for (const OutPiece& piece : out) add_send(request, piece, kAllToAllTag);
  return request;
}

Request Comm::start_exchange(const std::vector<OutPiece>& out, const std::vector<InPiece>& in,
                             int stream) const {
  ESPALIER_REQUIRE(stream >= 0 && stream < kStreams, "exchange over {} in stream {}", axis_,
                   stream);
  int64_t sent = 0;
  for (const OutPiece& piece : out) {
    require_rank(piece.rank, "exchange");
    sent += piece.rank == rank_ ? 0 : piece.bytes;
  }
  for (const InPiece& piece : in) require_rank(piece.rank, "exchange");
  if (out.empty() && in.empty()) return {};
  Request request = begin("exchange", sent);
  for (const InPiece& piece : in) add_receive(request, piece, kExchangeTag + stream);
  for (const OutPiece& piece : out) add_send(request, piece, kExchangeTag + stream);
  return request;
}

Request Comm::start_broadcast_bytes(void* data, int64_t bytes, int root) const {
  ESPALIER_REQUIRE(bytes >= 0, "broadcast of {} bytes over {}", bytes, axis_);
  require_rank(root, "broadcast");
  require_host(data, "broadcast");
  if (size_ == 1) return {};
  Request request = begin("broadcast", rank_ == root ? bytes : 0);
  for (int64_t first = 0; first < bytes; first += call_limit_) {
    const int part = static_cast<int>(std::min(call_limit_, bytes - first));
    ESPALIER_MPI(MPI_Ibcast(at(data, first), part, MPI_BYTE, root, handle_, request.add()));
  }
  return request;
}

Request Comm::start_send_bytes(const void* data, int64_t bytes, int to, int tag) const {
  require_rank(to, "send");
  ESPALIER_REQUIRE(to != rank_ && tag >= 0 && tag < kTags, "send over {} to rank {} with tag {}",
                   axis_, to, tag);
  Request request = begin("send", bytes);
  add_send(request, {data, bytes, to}, tag);
  return request;
}

Request Comm::start_recv_bytes(void* data, int64_t bytes, int from, int tag) const {
  require_rank(from, "recv");
  ESPALIER_REQUIRE(from != rank_ && tag >= 0 && tag < kTags,
                   "recv over {} from rank {} with tag {}", axis_, from, tag);
  Request request = begin("recv", 0);
  add_receive(request, {data, bytes, from}, tag);
  return request;
}

Request Comm::start_barrier() const {
  if (size_ == 1) return {};
  Request request = begin("barrier", 0);
  ESPALIER_MPI(MPI_Ibarrier(handle_, request.add()));
  return request;
}

// Both sides cut a message alike, wherever their memory is.
int64_t Comm::bytes_a_message() const {
  if constexpr (device::kPresent)
    if (transport_settings().transport == Transport::staged)
      return std::min(call_limit_, transport_settings().staging_bytes);
  return call_limit_;
}

// Staged receives are posted at once, so that only sends can be behind others there.
bool Comm::goes_through_queue(const void* data, bool is_send) const {
  if constexpr (!device::kPresent) return false;
  if (is_on_device(data)) return true;
  const bool is_queued = is_send || transport_settings().transport == Transport::gpu_aware;
  return is_queued && !queue_->is_empty();
}

DeviceTransfer& Comm::transfer_of(Request& request) const {
  if (request.transfer_ == nullptr)
    request.transfer_ = std::make_shared<DeviceTransfer>(handle_, queue_);
  return *request.transfer_;
}

// MPI keeps the order of messages of one tag. An empty message travels too: its receiver may wait
// for it.
void Comm::add_send(Request& request, const OutPiece& piece, int tag) const {
  ESPALIER_REQUIRE(piece.bytes >= 0, "send of {} bytes over {}", piece.bytes, axis_);
  const int64_t most = bytes_a_message();
  if (goes_through_queue(piece.data, true))
    return transfer_of(request).send(piece.data, piece.bytes, piece.rank, tag, most);
  int64_t first = 0;
  do {
    const int part = static_cast<int>(std::min(most, piece.bytes - first));
    ESPALIER_MPI(
        MPI_Isend(at(piece.data, first), part, MPI_BYTE, piece.rank, tag, handle_, request.add()));
    first += part;
  } while (first < piece.bytes);
}

void Comm::add_receive(Request& request, const InPiece& piece, int tag) const {
  ESPALIER_REQUIRE(piece.bytes >= 0, "recv of {} bytes over {}", piece.bytes, axis_);
  const int64_t most = bytes_a_message();
  if (goes_through_queue(piece.data, false))
    return transfer_of(request).receive(piece.data, piece.bytes, piece.rank, tag, most);
  int64_t first = 0;
  do {
    const int part = static_cast<int>(std::min(most, piece.bytes - first));
    ESPALIER_MPI(
        MPI_Irecv(at(piece.data, first), part, MPI_BYTE, piece.rank, tag, handle_, request.add()));
    first += part;
  } while (first < piece.bytes);
}

}  // namespace espalier
