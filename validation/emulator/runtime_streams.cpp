// SPDX-License-Identifier: Apache-2.0
// Emulated device: CUDA's calls for streams, events and graphs.
#include <algorithm>
#include <memory>

#include "core/test_hooks.hpp"
#include "emulator/device_memory.hpp"
#include "emulator/runtime.hpp"

using namespace espalier::emulator;

struct CUgraph_st {
  std::vector<GraphNode> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

namespace {

/// The place behind all that was submitted.
std::shared_ptr<Marker> mark(CUstream_st* stream) {
  auto marker = std::make_shared<Marker>();
  marker->stream = stream;
  marker->position = stream->submitted + 1;
  submit(stream, {"event", nullptr, nullptr, marker, false});
  return marker;
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) *stream = make_stream(device);
  return error;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (stream == nullptr || find_stream(stream) == nullptr)
    return fail_with(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) return fail_with(allow_wait(stream));
  remove_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  const cudaError_t error = allow_wait(found);
  if (error == cudaSuccess && !espalier::is_broken_for_test("device_wait")) finish(found);
  return fail_with(error);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  const cudaError_t error = allow_wait(found);
  if (error != cudaSuccess) return fail_with(error);
  if (!found->queue.empty()) step();
  return found->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t error = refuse_while_capturing();
  if (error == cudaSuccess) finish_all();
  return fail_with(error);
}
cudaError_t cudaDeviceReset() {
  return cudaDeviceSynchronize();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  return fail_with(
      submit(found, {"host function", [=] { function(argument); }, nullptr, nullptr, true}));
}

// Events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  *event = new CUevent_st;
  (*event)->is_timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (event == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  delete event;  // whoever waits for it holds its marker
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (event == nullptr || found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  event->capture = found->capture;
  event->nodes = found->last_nodes;
  event->marker = found->capture == nullptr ? mark(found) : nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (event == nullptr || found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (event->capture == nullptr) {
    if (event->marker == nullptr || espalier::is_broken_for_test("device_order"))
      return cudaSuccess;
    if (found->capture != nullptr) {
      found->capture->is_valid = false;
      return fail_with(cudaErrorStreamCaptureIsolation);
    }
    return fail_with(submit(found, {"wait for an event", nullptr, event->marker, nullptr, false}));
  }
  if (event->capture->is_over) return fail_with(cudaErrorCapturedEvent);
  if (found->capture == nullptr) {  // the stream joins the capture
    found->capture = event->capture;
    found->last_nodes.clear();
    event->capture->streams.push_back(found);
  } else if (found->capture != event->capture) {
    found->capture->is_valid = event->capture->is_valid = false;
    return fail_with(cudaErrorStreamCaptureIsolation);
  }
  for (const size_t node : event->nodes)
    if (std::find(found->last_nodes.begin(), found->last_nodes.end(), node) ==
        found->last_nodes.end())
      found->last_nodes.push_back(node);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (event == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) {
    event->capture->is_valid = false;
    return fail_with(cudaErrorCapturedEvent);
  }
  if (event->marker == nullptr || event->marker->is_reached) return cudaSuccess;
  step();
  return event->marker->is_reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (event == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (event->capture != nullptr) {
    event->capture->is_valid = false;
    return fail_with(cudaErrorCapturedEvent);
  }
  finish(event->marker);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const Guard guard;
  if (from == nullptr || to == nullptr || !from->is_timed || !to->is_timed ||
      from->marker == nullptr || to->marker == nullptr)
    return fail_with(cudaErrorInvalidResourceHandle);
  if (!from->marker->is_reached || !to->marker->is_reached) return fail_with(cudaErrorNotReady);
  *milliseconds = static_cast<float>(1e3 * (to->marker->seconds - from->marker->seconds));
  return cudaSuccess;
}

// Graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (stream == nullptr) return fail_with(cudaErrorStreamCaptureUnsupported);
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  return fail_with(begin_capture(found, mode));
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Guard guard;
  *graph = nullptr;
  CUstream_st* const found = stream == nullptr ? nullptr : find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  std::vector<GraphNode> nodes;
  const cudaError_t error = end_capture(found, &nodes);
  if (error == cudaSuccess) *graph = new CUgraph_st{std::move(nodes)};
  return fail_with(error);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard;
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  *status = found->capture == nullptr  ? cudaStreamCaptureStatusNone
            : found->capture->is_valid ? cudaStreamCaptureStatusActive
                                       : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  const Guard guard;
  if (graph == nullptr) return fail_with(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{std::make_shared<const std::vector<GraphNode>>(graph->nodes)};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (executable == nullptr || found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (found->capture != nullptr) return fail_with(cudaErrorNotSupported);  // a graph in a graph
  return fail_with(submit(found, {"graph", [nodes = executable->nodes] { run_graph(*nodes); },
                                  nullptr, nullptr, false}));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Guard guard;
  delete executable;  // launches that have not run hold the nodes
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Guard guard;
  delete graph;
  return cudaSuccess;
}
