// SPDX-License-Identifier: Apache-2.0
// Emulated device: streams, events, captures. A stream is a queue of operations; they run on the
// host thread that waits for them. All functions are called with the lock of the runtime held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/enqueue.hpp"
#include "emulator/include/cuda_runtime_api.h"

namespace espalier::emulator {

/// A place in a stream.
struct Marker {
  CUstream_st* stream = nullptr;  // while it is not reached
  uint64_t position = 0;          // operations of the stream up to and with it
  bool is_reached = false;
  double seconds = 0;  // when it was
};

struct Operation {
  std::string label;
  std::function<void()> work;
  std::shared_ptr<Marker> awaits, marks;
  bool is_host = false;  // a host function: device memory is closed
};

/// A node knows the nodes before it by their numbers.
struct GraphNode {
  std::string label;
  std::function<void()> work;
  std::vector<size_t> after;
  bool is_host = false;
};

struct Capture {
  CUstream_st* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool is_valid = true, is_over = false;
  std::vector<GraphNode> nodes;
  std::vector<CUstream_st*> streams;  // the origin, and those that joined
};

std::recursive_mutex& lock_of_runtime();

/// Whether this call comes from inside an operation.
bool inside_operation();

/// The stream itself, or this device's stream for nullptr; nullptr if there is no such stream.
CUstream_st* find_stream(cudaStream_t stream);
CUstream_st* make_stream(int device);
void remove_stream(CUstream_st* stream);  // after its work

/// Appends, or records while the stream is captured.
cudaError_t submit(CUstream_st* stream, Operation operation);
/// Runs until the stream is empty, the marker is reached, all streams are empty.
void finish(CUstream_st* stream);
void finish(const std::shared_ptr<Marker>& marker);
void finish_all();
/// Runs one operation of any stream, so that a host that polls gets on.
void step();

// Captures

/// Whether a call that is unsafe while a stream is captured may go on in this thread; if not, the
/// capture is spoilt.
cudaError_t allow_unsafe_call();
/// The same for a wait for all streams, and for `stream`.
cudaError_t refuse_while_capturing();
cudaError_t allow_wait(CUstream_st* stream);
cudaError_t begin_capture(CUstream_st* stream, cudaStreamCaptureMode mode);
/// nodes: those recorded; error: why there is no graph.
cudaError_t end_capture(CUstream_st* stream, std::vector<GraphNode>* nodes);
/// Runs the nodes in a random order that keeps what is after what.
void run_graph(const std::vector<GraphNode>& nodes);

}  // namespace espalier::emulator

struct CUstream_st {
  int device = 0;
  uint64_t submitted = 0, done = 0;
  std::deque<espalier::emulator::Operation> queue;
  std::shared_ptr<espalier::emulator::Capture> capture;
  std::vector<size_t> last_nodes;  // what the next node of the capture comes after
};

struct CUevent_st {
  bool is_timed = true;
  std::shared_ptr<espalier::emulator::Marker> marker;  // of the last record
  // A record inside a capture
  std::shared_ptr<espalier::emulator::Capture> capture;
  std::vector<size_t> nodes;
};
