// SPDX-License-Identifier: Apache-2.0
#include "grid/device_transfer.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

// Queues that are not empty.
std::vector<std::shared_ptr<PostQueue>>& filled_queues() {
  static thread_local std::vector<std::shared_ptr<PostQueue>> queues;
  return queues;
}

}  // namespace

void PostQueue::add(std::weak_ptr<DeviceTransfer> transfer, size_t part) {
  auto& queues = filled_queues();
  const auto self = shared_from_this();
  if (std::find(queues.begin(), queues.end(), self) == queues.end()) queues.push_back(self);
  entries_.push_back({std::move(transfer), part});
}

void PostQueue::push() {
  for (; !entries_.empty(); entries_.pop_front()) {
    const std::shared_ptr<DeviceTransfer> transfer = entries_.front().transfer.lock();
    if (transfer == nullptr) continue;
    if (!transfer->is_ready(entries_.front().part)) return;
    transfer->post(entries_.front().part);
  }
}

void push_post_queues() {
  auto& queues = filled_queues();
  if (queues.empty()) return;
  for (const auto& queue : queues) queue->push();
  queues.erase(std::remove_if(queues.begin(), queues.end(),
                              [](const auto& queue) { return queue->is_empty(); }),
               queues.end());
}

DeviceTransfer::DeviceTransfer(MPI_Comm comm, std::shared_ptr<PostQueue> queue)
    : comm_(comm), queue_(std::move(queue)) {
  ESPALIER_REQUIRE(!device::is_recording(), "messages cannot be part of a recorded graph");
  if (!is_broken_for_test("transfer_event")) start_->record(device::Stream::current());
}

DeviceTransfer::~DeviceTransfer() {
  if (open_ == 0) return;
  // Given up while an exception unwound. MPI and the device may still use the pinned memory: it
  // must not find a second use.
  static auto* const abandoned = new std::vector<std::shared_ptr<Staging>>;
  for (Part& part : parts_)
    if (part.staging != nullptr) abandoned->push_back(std::move(part.staging));
}

// A copy of device memory in pinned memory, on its way.
std::shared_ptr<DeviceTransfer::Staging> DeviceTransfer::stage(void* data, int64_t bytes) {
  std::shared_ptr<Staging>& staging = staged_[{data, bytes}];
  if (staging != nullptr) return staging;
  staging = std::make_shared<Staging>(bytes);
  device::Stream& copies = device::Stream::to_host();
  if (!has_staged_) copies.wait_for(*start_);
  has_staged_ = true;
  const device::StreamScope scope(copies);
  device::copy(staging->block.data(), data, bytes);
  staging->copied->record(copies);
  return staging;
}

void DeviceTransfer::send(const void* data, int64_t bytes, int rank, int tag, int64_t most) {
  const bool is_device = device::is_device(data);
  const bool is_staged = is_device && transport_settings().transport == Transport::staged;
  auto* at = static_cast<char*>(const_cast<void*>(data));  // only read
  int64_t first = 0;
  do {
    const int64_t part = std::min(most, bytes - first);
    add({true, is_device && !is_staged, at + first, static_cast<int>(part), rank, tag,
         is_staged && part > 0 ? stage(at + first, part) : nullptr},
        false);
    first += part;
  } while (first < bytes);
}

void DeviceTransfer::receive(void* data, int64_t bytes, int rank, int tag, int64_t most) {
  const bool is_device = device::is_device(data);
  const bool is_staged = transport_settings().transport == Transport::staged;
  int64_t first = 0;
  do {
    const int64_t part = std::min(most, bytes - first);
    auto staging = is_staged && is_device && part > 0 ? std::make_shared<Staging>(part) : nullptr;
    add({false, is_device && !is_staged, static_cast<char*>(data) + first, static_cast<int>(part),
         rank, tag, std::move(staging)},
        is_staged);
    first += part;
  } while (first < bytes);
}

void DeviceTransfer::add(Part part, bool at_once) {
  parts_.push_back(std::move(part));
  requests_.push_back(MPI_REQUEST_NULL);
  ++open_;
  if (at_once)
    post(parts_.size() - 1);
  else
    queue_->add(weak_from_this(), parts_.size() - 1);
}

bool DeviceTransfer::is_ready(size_t index) const {
  const Part& part = parts_[index];
  if (part.staging != nullptr) return part.staging->copied->is_reached();
  return !part.waits || start_->is_reached();
}

void DeviceTransfer::post(size_t index) {
  const Part& part = parts_[index];
  void* data = part.staging != nullptr ? part.staging->block.data() : part.data;
  if (part.is_send)
    ESPALIER_MPI(
        MPI_Isend(data, part.bytes, MPI_BYTE, part.rank, part.tag, comm_, &requests_[index]));
  else
    ESPALIER_MPI(
        MPI_Irecv(data, part.bytes, MPI_BYTE, part.rank, part.tag, comm_, &requests_[index]));
}

// Into device memory, once the work that was given to the device before the start is done with it.
void DeviceTransfer::unpack(size_t index) {
  Part& part = parts_[index];
  device::Stream& copies = device::Stream::to_device();
  if (!has_unpacked_) copies.wait_for(*start_);
  has_unpacked_ = true;
  const device::StreamScope scope(copies);
  device::copy(part.data, part.staging->block.data(), part.bytes);
  part.staging->copied->record(copies);
  unpacking_.push_back(index);
}

void DeviceTransfer::close(size_t index) {
  parts_[index].staging = nullptr;
  --open_;
}

bool DeviceTransfer::test() {
  staged_.clear();  // all pieces are known by now; blocks go back one by one
  queue_->push();
  static thread_local std::vector<int> indices;
  static thread_local std::vector<MPI_Status> statuses;
  indices.resize(requests_.size());
  statuses.resize(requests_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                                indices.data(), statuses.data());
  if (code == MPI_ERR_IN_STATUS)
    for (int i = 0; i < count; ++i)
      check_mpi(statuses[static_cast<size_t>(i)].MPI_ERROR, "a message of device memory", __FILE__,
                __LINE__);
  check_mpi(code, "a message of device memory", __FILE__, __LINE__);
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    const auto index = static_cast<size_t>(indices[static_cast<size_t>(i)]);
    if (!parts_[index].is_send && parts_[index].staging != nullptr)
      unpack(index);
    else
      close(index);
  }
  // That stream runs in order.
  while (!unpacking_.empty() && parts_[unpacking_.front()].staging->copied->is_reached()) {
    close(unpacking_.front());
    unpacking_.pop_front();
  }
  return open_ == 0;
}

}  // namespace espalier
