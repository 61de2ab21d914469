// SPDX-License-Identifier: Apache-2.0
// Communication along one axis of the grid: the only caller of MPI.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/clock.hpp"
#include "grid/wait.hpp"

namespace espalier {

enum class ReduceOp { sum, max, min };
enum class ScalarType { int32, int64, uint64, fp32, fp64 };

template <class T>
constexpr ScalarType scalar_type() {
  if constexpr (std::is_same_v<T, float>)
    return ScalarType::fp32;
  else if constexpr (std::is_same_v<T, double>)
    return ScalarType::fp64;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ScalarType::int32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return ScalarType::int64;
  else {
    static_assert(std::is_same_v<T, uint64_t>, "MPI has no reduction of this type");
    return ScalarType::uint64;
  }
}

class DeviceTransfer;
class PostQueue;

/// An operation under way. Its buffers stay untouched until it is complete; with device memory: by
/// anything but the work given to the device before the start.
///
/// Dropped before that, it waits, and ends the job if that fails; while an exception unwinds it
/// does not wait, since the job is about to be aborted and the other ranks may never come.
class Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept { *this = std::move(other); }
  Request& operator=(Request&& other) noexcept;
  ~Request();

  bool is_complete() const { return pending_.empty() && transfer_ == nullptr; }
  bool test();  ///< pushes it forward and returns at once; true when complete
  void wait();  ///< returns when complete

 private:
  friend class Comm;
  Request(std::shared_ptr<CommStats> stats, const char* axis, const char* operation)
      : stats_(std::move(stats)),
        axis_(axis),
        operation_(operation),
        started_(monotonic_seconds()) {}
  MPI_Request* add();
  bool test_pending();

  std::vector<MPI_Request> pending_;
  std::shared_ptr<DeviceTransfer> transfer_;  // null unless device memory is in it
  std::shared_ptr<CommStats> stats_;
  const char* axis_ = "";
  const char* operation_ = "";
  double started_ = 0.0;
};

/// Bytes to or from one other rank of an exchange.
struct OutPiece {
  const void* data;
  int64_t bytes;
  int rank;
};
struct InPiece {
  void* data;
  int64_t bytes;
  int rank;
};

/// The ranks along one axis.
///
/// Memory      host. send, recv, exchange, all_to_all and all_gather also take device memory (the
///             same kind on all ranks of an all_gather): the operation takes its turn behind what
///             the current stream was given before, and once it is complete any stream may use the
///             result. Copies of a rank's own part run on the current stream. Device memory is
///             waited for on the thread that started it, and not within a recorded graph
/// Counts      in elements, any size: MPI is called for at most 1 GiB at once, since its counts are
///             int and transports fail beyond 2 GiB
/// Collective  all ranks of the axis, in the same order; send, recv and exchange: the named ranks.
///             start_... returns at once, the form without start_ waits
/// Threads     one at a time; with MPI_THREAD_MULTIPLE one at a time for each Comm
/// Axis of one rank: nothing is sent or counted; results that are not in place are copied
/// Errors      LaunchError if MPI reports one; Internal if an argument is out of range, or for
///             device memory where host memory is due
class Comm {
 public:
  Comm() = default;
  /// Takes over `handle` and frees it in the end. `axis` is its name in reports.
  Comm(MPI_Comm handle, const char* axis);
  Comm(Comm&& other) noexcept { *this = std::move(other); }
  Comm& operator=(Comm&& other) noexcept;
  ~Comm();

  /// The same ranks with messages of their own, so that another thread may use it at the same time.
  /// Collective
  Comm duplicate(const char* axis) const;

  const char* axis() const { return axis_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// For libraries that do collective work of their own (HDF5).
  MPI_Comm handle() const { return handle_; }

  const CommStats& stats() const { return *stats_; }
  CommStats take_stats() const;  ///< what was counted since the last call

  /// data [count], in place.
  template <class T>
  Request start_all_reduce(T* data, int64_t count, ReduceOp op) const {
    return start_all_reduce(data, count, scalar_type<T>(), op);
  }
  /// all [size * count] summed over ranks; own [count] is this rank's part. No overlap.
  template <class T>
  Request start_reduce_scatter(const T* all, int64_t count, T* own, ReduceOp op) const {
    return start_reduce_scatter(all, count, own, scalar_type<T>(), op);
  }
  /// own [count] of every rank into all [size * count], by rank. own may be this rank's part of
  /// all.
  template <class T>
  Request start_all_gather(const T* own, int64_t count, T* all) const {
    return start_all_gather_bytes(own, bytes<T>(count), all);
  }
  /// send [size * count], part r goes to rank r; receive [size * count], part r comes from rank r.
  template <class T>
  Request start_all_to_all(const T* send, int64_t count, T* receive) const {
    const std::vector<int64_t> counts(static_cast<size_t>(size_), count);
    return start_all_to_all_v(send, counts, receive, counts);
  }
  /// The same with a count a rank; parts lie one behind the other.
  template <class T>
  Request start_all_to_all_v(const T* send, const std::vector<int64_t>& send_counts, T* receive,
                             const std::vector<int64_t>& receive_counts) const {
    return start_all_to_all_bytes(send, receive, bytes_of<T>(send_counts),
                                  bytes_of<T>(receive_counts));
  }
  template <class T>
  Request start_broadcast(T* data, int64_t count, int root) const {
    return start_broadcast_bytes(data, bytes<T>(count), root);
  }
  template <class T>
  Request start_send(const T* data, int64_t count, int to, int tag) const {
    return start_send_bytes(data, bytes<T>(count), to, tag);
  }
  template <class T>
  Request start_recv(T* data, int64_t count, int from, int tag) const {
    return start_recv_bytes(data, bytes<T>(count), from, tag);
  }
  Request start_barrier() const;
  /// Pieces to and from single ranks at once. Exchanges of one `stream` meet in the order in which
  /// they are started; those of different streams in any order. 0 <= stream < kStreams.
  Request start_exchange(const std::vector<OutPiece>& out, const std::vector<InPiece>& in,
                         int stream) const;
  static constexpr int kStreams = 1024;
  static constexpr int kTags = 16384;  ///< tags of send and recv are below

  template <class T>
  void all_reduce(T* data, int64_t count, ReduceOp op) const {
    start_all_reduce(data, count, op).wait();
  }
  template <class T>
  T all_reduce(T value, ReduceOp op) const {
    all_reduce(&value, 1, op);
    return value;
  }
  template <class T>
  void reduce_scatter(const T* all, int64_t count, T* own, ReduceOp op) const {
    start_reduce_scatter(all, count, own, op).wait();
  }
  template <class T>
  void all_gather(const T* own, int64_t count, T* all) const {
    start_all_gather(own, count, all).wait();
  }
  template <class T>
  void all_to_all(const T* send, int64_t count, T* receive) const {
    start_all_to_all(send, count, receive).wait();
  }
  template <class T>
  void all_to_all_v(const T* send, const std::vector<int64_t>& send_counts, T* receive,
                    const std::vector<int64_t>& receive_counts) const {
    start_all_to_all_v(send, send_counts, receive, receive_counts).wait();
  }
  template <class T>
  void broadcast(T* data, int64_t count, int root) const {
    start_broadcast(data, count, root).wait();
  }
  template <class T>
  void send(const T* data, int64_t count, int to, int tag) const {
    start_send(data, count, to, tag).wait();
  }
  template <class T>
  void recv(T* data, int64_t count, int from, int tag) const {
    start_recv(data, count, from, tag).wait();
  }
  void barrier() const { start_barrier().wait(); }

  /// Waits until `poll` is true: for state machines made of several requests. Counts as exposed.
  void wait_until(const std::function<bool()>& poll, const char* operation) const {
    espalier::wait_until(poll, axis_, operation, *stats_);
  }

  /// Most bytes handed to one MPI call; tests lower it to see that longer ones are cut right.
  void set_call_limit(int64_t bytes) { call_limit_ = bytes; }

 private:
  template <class T>
  static int64_t bytes(int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>, "only plain bytes travel");
    return count * static_cast<int64_t>(sizeof(T));
  }
  template <class T>
  static std::vector<int64_t> bytes_of(std::vector<int64_t> counts) {
    for (int64_t& c : counts) c = bytes<T>(c);
    return counts;
  }
  Request start_all_reduce(void* data, int64_t count, ScalarType type, ReduceOp op) const;
  Request start_reduce_scatter(const void* all, int64_t count, void* own, ScalarType type,
                               ReduceOp op) const;
  Request start_all_gather_bytes(const void* own, int64_t bytes, void* all) const;
  Request start_all_to_all_bytes(const void* send, void* receive,
                                 const std::vector<int64_t>& send_bytes,
                                 const std::vector<int64_t>& receive_bytes) const;
  Request start_broadcast_bytes(void* data, int64_t bytes, int root) const;
  Request start_send_bytes(const void* data, int64_t bytes, int to, int tag) const;
  Request start_recv_bytes(void* data, int64_t bytes, int from, int tag) const;

  int64_t elements_a_call(int64_t width) const;
  Request begin(const char* operation, int64_t bytes) const;
  void add_send(Request& request, const OutPiece& piece, int tag) const;
  void add_receive(Request& request, const InPiece& piece, int tag) const;
  void require_rank(int rank, const char* operation) const;
  void require_host(const void* data, const char* operation) const;
  int64_t bytes_a_message() const;
  bool goes_through_queue(const void* data, bool is_send) const;
  DeviceTransfer& transfer_of(Request& request) const;

  MPI_Comm handle_ = MPI_COMM_NULL;
  const char* axis_ = "";
  int rank_ = 0;
  int size_ = 1;
  int64_t call_limit_ = int64_t{1} << 30;
  std::shared_ptr<CommStats> stats_ = std::make_shared<CommStats>();
  std::shared_ptr<PostQueue> queue_;  // in a build that computes on a device
};

}  // namespace espalier
