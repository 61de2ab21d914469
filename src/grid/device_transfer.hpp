// SPDX-License-Identifier: Apache-2.0
// Private to this room: messages from and into device memory, under way.
//
// MPI knows no streams, so a message may be handed to it only when the device has come to the point
// at which the operation was started. Until then it waits in the queue of its Comm, and with it
// everything that was started later, since MPI matches messages of one pair and tag in the order of
// the calls.
//
// Why nothing hangs. (1) What stands at the head of a queue waits for an event of this device and
// for no other rank. The event was recorded behind work that was given to the device before, and a
// stream waits only for events that were recorded already; so it is reached, whatever the host and
// the other ranks do, and every queue empties as long as the host looks at it. (2) The host looks
// at all queues of its thread in every test and every wait of any Comm: while it waits for one axis
// the messages of all others leave. Where it does not look, it computes or waits for the device,
// and both end by themselves. (3) Staged receives do not wait at all: they are posted at the start,
// into memory of their own. So every operation reaches MPI a finite time after its start, by calls
// that do not block: a program that is free of deadlock with MPI_Isend and MPI_Irecv called at once
// stays so.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "grid/staging_pool.hpp"
#include "grid/transport.hpp"

namespace espalier {

class DeviceTransfer;

/// What one Comm has not yet handed to MPI, in the order in which it was started. Used by one
/// thread.
class PostQueue : public std::enable_shared_from_this<PostQueue> {
 public:
  bool is_empty() const { return entries_.empty(); }
  void add(std::weak_ptr<DeviceTransfer> transfer, size_t part);
  /// Hands over what the device is ready for, up to the first that it is not.
  void push();

 private:
  struct Entry {
    std::weak_ptr<DeviceTransfer> transfer;  // gone: given up while an exception unwound
    size_t part;
  };
  std::deque<Entry> entries_;
};

/// push() of every queue that this thread filled.
void push_post_queues();

/// The messages of one operation that cannot be handed to MPI at once: in or out of device memory,
/// or behind such ones. The current stream of the constructor is the one in whose order they lie.
///
/// Memory  staged: pinned host memory as large as what is under way; a piece that goes to several
///         ranks is copied once
class DeviceTransfer : public std::enable_shared_from_this<DeviceTransfer> {
 public:
  DeviceTransfer(MPI_Comm comm, std::shared_ptr<PostQueue> queue);
  ~DeviceTransfer();
  DeviceTransfer(const DeviceTransfer&) = delete;
  DeviceTransfer& operator=(const DeviceTransfer&) = delete;

  /// One message of data [bytes]; cut into messages of at most `most` bytes.
  void send(const void* data, int64_t bytes, int rank, int tag, int64_t most);
  void receive(void* data, int64_t bytes, int rank, int tag, int64_t most);

  /// Does what can be done without waiting; true when all has arrived and left.
  /// Errors  LaunchError if MPI reports one
  bool test();

 private:
  friend class PostQueue;
  struct Staging {
    StagingBlock block;
    PooledEvent copied;  // into or out of the block
    explicit Staging(int64_t bytes) : block(bytes) {}
  };
  struct Part {
    bool is_send;
    bool waits;  // for start_, having no staging
    void* data;
    int bytes, rank, tag;
    std::shared_ptr<Staging> staging;  // null: MPI takes `data`
  };

  std::shared_ptr<Staging> stage(void* data, int64_t bytes);
  void add(Part part, bool at_once);
  bool is_ready(size_t part) const;
  void post(size_t part);
  void unpack(size_t part);
  void close(size_t part);

  MPI_Comm comm_;
  std::shared_ptr<PostQueue> queue_;
  PooledEvent start_;
  bool has_staged_ = false, has_unpacked_ = false;  // so that the stream waits for start_ already
  std::vector<Part> parts_;
  std::vector<MPI_Request> requests_;  // by part; null before it is posted and after it is done
  std::deque<size_t> unpacking_;       // received, on the way from pinned to device memory
  // By address and bytes, for pieces that go to several ranks.
  std::map<std::pair<const void*, int64_t>, std::shared_ptr<Staging>> staged_;
  size_t open_ = 0;  // parts that are not complete
};

}  // namespace espalier
