// SPDX-License-Identifier: Apache-2.0
// Streams, events, copies and graphs by the CUDA runtime.
#include "core/error.hpp"
#include "cuda/check.hpp"
#include "device/device.hpp"

namespace espalier::device {
namespace {

using cuda::check;

thread_local Stream* current_stream = nullptr;
thread_local bool records = false;

// Kokkos asks for 0 bytes of memory with every team policy, a call that the stricter modes may
// refuse. This program's own allocations and waits inside a graph show on the emulator, which
// refuses them.
#ifdef ESPALIER_EMULATED_DEVICE
constexpr cudaStreamCaptureMode kCaptureMode = cudaStreamCaptureModeThreadLocal;
#else
constexpr cudaStreamCaptureMode kCaptureMode = cudaStreamCaptureModeRelaxed;
#endif

cudaEvent_t event_of(void* handle) {
  return static_cast<cudaEvent_t>(handle);
}

}  // namespace

void open(int ordinal) {
  const int devices = count();
  if (devices == 0)
    throw LaunchError(
        "this program computes on a GPU, and this node has none that it may use; start it on a GPU "
        "node (check, plan and report need none), or use a build for the host");
  if (ordinal < 0 || ordinal >= devices)
    throw LaunchError(
        fmt::format("GPU {} is asked for, but this process sees {} (numbers from 0); "
                    "see CUDA_VISIBLE_DEVICES and the job's GPUs a node",
                    ordinal, devices));
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  const auto make = [](Stream& stream, int priority) {
    if (stream.handle_ == nullptr)
      check(cudaStreamCreateWithPriority(&stream.handle_, cudaStreamNonBlocking, priority),
            "cudaStreamCreateWithPriority");
  };
  // What arrives is added at once: others wait for it, and it is little.
  make(Stream::compute(), least);
  make(Stream::communication(), greatest);
  make(Stream::to_host(), greatest);
  make(Stream::to_device(), greatest);
}

void close() {
  for (Stream* stream :
       {&Stream::compute(), &Stream::communication(), &Stream::to_host(), &Stream::to_device()}) {
    if (stream->handle_ == nullptr) continue;
    cudaStreamSynchronize(stream->handle_);
    cudaStreamDestroy(stream->handle_);
    stream->handle_ = nullptr;
  }
}

Stream& Stream::compute() {
  static Stream stream;
  return stream;
}
Stream& Stream::communication() {
  static Stream stream;
  return stream;
}
Stream& Stream::to_host() {
  static Stream stream;
  return stream;
}
Stream& Stream::to_device() {
  static Stream stream;
  return stream;
}
Stream& Stream::current() {
  return current_stream == nullptr ? compute() : *current_stream;
}

void Stream::wait_for(const Event& event) const {
  if (event.handle_ != nullptr)
    check(cudaStreamWaitEvent(handle_, event_of(event.handle_), 0), "cudaStreamWaitEvent");
}
void Stream::synchronize() const {
  check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize");
}

StreamScope::StreamScope(Stream& stream) : before_(current_stream) {
  current_stream = &stream;
}
StreamScope::~StreamScope() {
  current_stream = before_;
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(timing_, other.timing_);
  return *this;
}
Event::~Event() {
  if (handle_ != nullptr) cudaEventDestroy(event_of(handle_));
}
void Event::record(const Stream& stream) {
  if (handle_ == nullptr) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(
              &event, timing_ == Timing::yes ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    handle_ = event;
  }
  check(cudaEventRecord(event_of(handle_), stream.handle()), "cudaEventRecord");
}
bool Event::is_reached() const {
  if (handle_ == nullptr) return true;
  const cudaError_t code = cudaEventQuery(event_of(handle_));
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check(code, "cudaEventQuery");
  return true;
}
void Event::wait() const {
  if (handle_ != nullptr) check(cudaEventSynchronize(event_of(handle_)), "cudaEventSynchronize");
}
double Event::seconds(const Event& from, const Event& to) {
  ESPALIER_REQUIRE(from.handle_ != nullptr && to.handle_ != nullptr && from.timing_ == Timing::yes,
                   "the time between events that were not recorded, or without times");
  float milliseconds = 0.0f;
  check(cudaEventElapsedTime(&milliseconds, event_of(from.handle_), event_of(to.handle_)),
        "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

void copy(void* to, const void* from, int64_t bytes) {
  if (to == from || bytes <= 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                        Stream::current().handle()),
        "cudaMemcpyAsync");
}
void copy_and_wait(void* to, const void* from, int64_t bytes) {
  copy(to, from, bytes);
  Stream::current().synchronize();
}
void fill(void* data, int value, int64_t bytes) {
  if (bytes <= 0) return;
  check(cudaMemsetAsync(data, value, static_cast<size_t>(bytes), Stream::current().handle()),
        "cudaMemsetAsync");
}

Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
Graph::~Graph() {
  if (handle_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
}

void Graph::begin() {
  ESPALIER_REQUIRE(!records, "a graph is recorded inside another");
  check(cudaStreamBeginCapture(Stream::current().handle(), kCaptureMode), "cudaStreamBeginCapture");
  records = true;
}
void Graph::abandon() {
  records = false;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(Stream::current().handle(), &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
}
void Graph::end() {
  records = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(Stream::current().handle(), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t ready = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&ready, graph, 0);
  cudaGraphDestroy(graph);
  check(code, "cudaGraphInstantiate");
  if (handle_ != nullptr) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle_));
  handle_ = ready;
}
void Graph::launch() const {
  ESPALIER_REQUIRE(handle_ != nullptr, "an empty graph is launched");
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(handle_), Stream::current().handle()),
        "cudaGraphLaunch");
}
bool is_recording() {
  return records;
}

}  // namespace espalier::device
