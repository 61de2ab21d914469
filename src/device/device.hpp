// SPDX-License-Identifier: Apache-2.0
// The accelerator of this process: memory, streams, events, graphs. In a build without CUDA every
// function is there and does its work on the host at once, so that callers have one form.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/stream.hpp"

namespace espalier::device {

/// Whether this build computes on a device whose memory the host cannot reach.
#if defined(ESPALIER_DEVICE)
constexpr bool kPresent = true;
#else
constexpr bool kPresent = false;
#endif

/// What the header of a run says. Empty in a host build.
struct Description {
  std::string name, bus;  // "NVIDIA H200", PCI address "0000:1b:00.0"
  int ordinal = 0, major = 0, minor = 0, multiprocessors = 0;
  int driver = 0, runtime = 0;  // 13000 is 13.0
  int64_t total_bytes = 0;
};
int count();  ///< devices that this process sees; 0 in a host build
/// PCI addresses of the devices that this process sees, by ordinal. Before open() too.
std::vector<std::string> buses();
/// Makes `ordinal` the device of this process, and its streams. Once, before any other call.
/// Errors  LaunchError if there is no such device
void open(int ordinal);
/// Waits for everything and gives the streams back; before the process ends.
void close();
Description describe();

/// Bytes of the device's memory, free now and in all; 0 in a host build.
struct Memory {
  int64_t free = 0, total = 0;
};
Memory memory();

/// Device memory, 256-byte aligned; plain host memory in a host build. Never managed memory.
/// Errors  MemoryError with the bytes asked for and those free
void* allocate(int64_t bytes, const std::string& label);
void release(void* data);
int64_t allocated_bytes();       ///< by allocate(), now
int64_t peak_allocated_bytes();  ///< since the start or since reset_peak()
void reset_peak();
/// Host memory that copies reach without a detour and while the host goes on; 64-byte aligned.
/// Errors  MemoryError
void* allocate_pinned(int64_t bytes);
void release_pinned(void* data);
/// Whether `data` points into device memory; false in a host build.
bool is_device(const void* data);

class Event;

/// Work in order. compute() is the one that the passes run on; communication() adds what arrived;
/// to_host() and to_device() move data to and from pinned memory, both ways at once.
class Stream {
 public:
  cuda::Stream handle() const { return handle_; }
  /// Work given from now on waits, on the device, for what the event marks.
  void wait_for(const Event& event) const;
  /// The host waits until all work so far is done.
  void synchronize() const;

  static Stream& compute();
  static Stream& communication();
  static Stream& to_host();
  static Stream& to_device();
  /// The stream on which this thread's kernels and copies run: compute() but inside a StreamScope.
  static Stream& current();

 private:
  friend void open(int);
  friend void close();
  friend class StreamScope;
  cuda::Stream handle_ = nullptr;
};

/// Kernels and copies that this thread starts go to `stream` while it lives.
class StreamScope {
 public:
  explicit StreamScope(Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream* before_;
};

/// A point in a stream. Not recorded: always reached.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;
  ~Event();
  void record(const Stream& stream = Stream::current());
  bool is_reached() const;  ///< asks and returns at once
  void wait() const;        ///< blocks the host
  /// Seconds on the device between two recorded events that are reached; for Event(Timed).
  static double seconds(const Event& from, const Event& to);
  enum class Timing { no, yes };
  explicit Event(Timing timing) : timing_(timing) {}

 private:
  friend class Stream;
  void* handle_ = nullptr;  // a cudaEvent_t, made at the first record()
  Timing timing_ = Timing::no;
};

/// to [bytes] = from [bytes], in order on the current stream, host or device memory on either side;
/// the host goes on at once. Pageable host memory is read before the call returns. Memory that is
/// written on the host must be pinned and not be touched before the stream has come so far.
void copy(void* to, const void* from, int64_t bytes);
/// The same, and the host waits until it is done.
void copy_and_wait(void* to, const void* from, int64_t bytes);
/// Every byte, on the current stream.
void fill(void* data, int value, int64_t bytes);

/// A recorded sequence of work that is started as one.
class Graph {
 public:
  Graph() = default;
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();
  bool is_empty() const { return handle_ == nullptr; }
  /// Records what `work` starts on the current stream instead of running it. No wait of the host
  /// and no allocation may happen inside.
  template <class F>
  void record(const F& work) {
    begin();
    try {
      work();
    } catch (...) {
      abandon();
      throw;
    }
    end();
  }
  void launch() const;  ///< on the current stream

 private:
  void begin();
  void end();
  void abandon();
  void* handle_ = nullptr;
};
/// Whether this thread is inside Graph::record().
bool is_recording();

/// Named ranges for Nsight and other tools that read NVTX; nothing without one attached.
void push_range(const char* name);
void pop_range();

/// Chooses between the tuned kernels of cuda/ and the portable ones, for the process.
bool uses_tuned_kernels();
void set_tuned_kernels(bool on);

}  // namespace espalier::device
