// SPDX-License-Identifier: Apache-2.0
#include "emulator/streams.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "emulator/device_memory.hpp"
#include "emulator/engine.hpp"
#include "emulator/random.hpp"

namespace espalier::emulator {
namespace {

using Stream = CUstream_st;

Order order_of_environment() {
  const char* const text = getenv("ESPALIER_EMULATOR_ORDER");
  if (text == nullptr || strcmp(text, "random") == 0) return Order::random;
  if (strcmp(text, "lazy") == 0) return Order::lazy;
  if (strcmp(text, "eager") == 0) return Order::eager;
  die(std::string("ESPALIER_EMULATOR_ORDER is '") + text + "'; lazy, random and eager are known");
}

struct Streams {
  std::recursive_mutex lock;
  std::set<Stream*> all;
  std::map<int, Stream*> of_device;  // nullptr's
  std::vector<std::shared_ptr<Capture>> captures;
  bool is_running = false;
  Order order = order_of_environment();
  Random random{seed_of_environment() + 77};
};
Streams& streams() {
  static Streams* const one = new Streams;  // for the life of the process
  return *one;
}

thread_local std::vector<const Capture*> own_captures;  // begun by this thread

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(const std::function<void()>& work, bool is_host) noexcept {  // a device knows no exception
  if (!work) return;
  if (is_host) {
    const HostAccess host;
    work();
  } else {
    work();
  }
}

bool can_run(const Stream& stream) {
  if (stream.queue.empty()) return false;
  const auto& awaits = stream.queue.front().awaits;
  return awaits == nullptr || awaits->is_reached;
}

void run_first(Stream& stream) {
  Streams& s = streams();
  const DeviceAccess access;
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  s.is_running = true;
  run(operation.work, operation.is_host);
  s.is_running = false;
  ++stream.done;
  if (operation.marks != nullptr) {
    operation.marks->is_reached = true;
    operation.marks->seconds = now();
  }
}

/// Of the streams that can run, one at random; nullptr if there is none.
template <class Candidates>
Stream* pick(const Candidates& candidates) {
  std::vector<Stream*> ready;
  for (Stream* stream : candidates)
    if (can_run(*stream)) ready.push_back(stream);
  return ready.empty() ? nullptr : ready[streams().random.below(ready.size())];
}

/// How far each stream has to come.
using Needs = std::map<Stream*, uint64_t>;

/// Adds what the operations up to there wait for.
void need(Needs& needs, Stream* stream, uint64_t position) {
  uint64_t& known = needs[stream];
  if (position <= known) return;
  const uint64_t from = std::max(known, stream->done);
  known = position;
  for (uint64_t n = from; n < position; ++n) {
    const auto& awaits = stream->queue[n - stream->done].awaits;
    if (awaits != nullptr && !awaits->is_reached) need(needs, awaits->stream, awaits->position);
  }
}

void run_until(const Needs& needs) {
  Streams& s = streams();
  const DeviceAccess access;  // one opening for all of them
  for (;;) {
    std::vector<Stream*> open;
    for (const auto& [stream, position] : needs)
      if (stream->done < position) open.push_back(stream);
    if (open.empty()) return;
    Stream* const any = s.order == Order::random && s.random.below(6) == 0 ? pick(s.all) : nullptr;
    Stream* const next = any != nullptr ? any : pick(open);
    if (next == nullptr) die("no stream can go on; a wait without end among events");
    run_first(*next);
  }
}

void spoil(Capture& capture) {
  capture.is_valid = false;
}

}  // namespace

std::recursive_mutex& lock_of_runtime() {
  return streams().lock;
}
bool inside_operation() {
  return streams().is_running;
}

Stream* find_stream(cudaStream_t stream) {
  Streams& s = streams();
  if (stream != nullptr) return s.all.count(stream) != 0 ? stream : nullptr;
  int device = 0;
  cudaGetDevice(&device);
  Stream*& own = s.of_device[device];
  if (own == nullptr) own = make_stream(device);
  return own;
}
Stream* make_stream(int device) {
  auto* const stream = new Stream;
  stream->device = device;
  streams().all.insert(stream);
  return stream;
}
void remove_stream(Stream* stream) {
  finish(stream);
  streams().all.erase(stream);
  delete stream;  // its markers are all reached, so nobody asks them for it
}

cudaError_t submit(Stream* stream, Operation operation) {
  if (stream->capture != nullptr) {
    Capture& capture = *stream->capture;
    if (!capture.is_valid) return cudaErrorStreamCaptureInvalidated;
    capture.nodes.push_back({std::move(operation.label), std::move(operation.work),
                             stream->last_nodes, operation.is_host});
    stream->last_nodes = {capture.nodes.size() - 1};
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(operation));
  ++stream->submitted;
  if (streams().order == Order::eager) finish_all();
  return cudaSuccess;
}

void finish(Stream* stream) {
  Needs needs;
  need(needs, stream, stream->submitted);
  run_until(needs);
}
void finish(const std::shared_ptr<Marker>& marker) {
  if (marker == nullptr || marker->is_reached) return;
  Needs needs;
  need(needs, marker->stream, marker->position);
  run_until(needs);
}
void finish_all() {
  Needs needs;
  for (Stream* stream : streams().all) need(needs, stream, stream->submitted);
  run_until(needs);
}
void step() {
  Stream* const stream = pick(streams().all);
  if (stream != nullptr) run_first(*stream);
}

void enqueue(cuda::Stream handle, std::function<void()> work, const char* label) {
  const std::lock_guard<std::recursive_mutex> guard(lock_of_runtime());
  if (inside_operation()) die(std::string("'") + label + "' is started inside work on the device");
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) die(std::string("'") + label + "' is started on a stream that is not one");
  const cudaError_t error = submit(stream, {label, std::move(work), nullptr, nullptr, false});
  if (error != cudaSuccess)
    die(std::string("'") + label + "' is started while " + cudaGetErrorString(error));
}
void name_memory(const void* data, const std::string& name) {
  const std::lock_guard<std::recursive_mutex> guard(lock_of_runtime());
  name_device_memory(data, name);
}
void set_order(Order order) {
  const std::lock_guard<std::recursive_mutex> guard(lock_of_runtime());
  streams().order = order;
}
int pending_operations() {
  const std::lock_guard<std::recursive_mutex> guard(lock_of_runtime());
  size_t count = 0;
  for (const Stream* stream : streams().all) count += stream->queue.size();
  return static_cast<int>(count);
}

cudaError_t allow_unsafe_call() {
  for (const auto& capture : streams().captures) {
    const bool is_own =
        std::find(own_captures.begin(), own_captures.end(), capture.get()) != own_captures.end();
    if (capture->mode == cudaStreamCaptureModeGlobal ||
        (capture->mode == cudaStreamCaptureModeThreadLocal && is_own)) {
      spoil(*capture);
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return cudaSuccess;
}
cudaError_t refuse_while_capturing() {
  for (const auto& capture : streams().captures) spoil(*capture);
  return streams().captures.empty() ? cudaSuccess : cudaErrorStreamCaptureUnsupported;
}
cudaError_t allow_wait(Stream* stream) {
  if (stream->capture == nullptr) return cudaSuccess;
  spoil(*stream->capture);
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t begin_capture(Stream* stream, cudaStreamCaptureMode mode) {
  if (stream->capture != nullptr) return cudaErrorInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->mode = mode;
  capture->streams = {stream};
  stream->capture = capture;
  stream->last_nodes.clear();
  own_captures.push_back(capture.get());
  streams().captures.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t end_capture(Stream* stream, std::vector<GraphNode>* nodes) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorInvalidValue;
  const auto own = std::find(own_captures.begin(), own_captures.end(), capture.get());
  if (capture->origin != stream) {
    spoil(*capture);
    return cudaErrorStreamCaptureUnmatched;
  }
  if (own == own_captures.end() && capture->mode != cudaStreamCaptureModeRelaxed)
    return cudaErrorStreamCaptureWrongThread;
  // What the origin does not come after would be lost at the end of a launch.
  std::vector<bool> is_behind(capture->nodes.size(), false);
  for (const size_t node : stream->last_nodes) is_behind[node] = true;
  for (size_t n = capture->nodes.size(); n-- > 0;)
    if (is_behind[n])
      for (const size_t before : capture->nodes[n].after) is_behind[before] = true;
  const bool is_joined = std::all_of(is_behind.begin(), is_behind.end(), [](bool b) { return b; });

  if (own != own_captures.end()) own_captures.erase(own);
  capture->is_over = true;
  for (Stream* joined : capture->streams) {
    joined->capture = nullptr;
    joined->last_nodes.clear();
  }
  auto& all = streams().captures;
  all.erase(std::find(all.begin(), all.end(), capture));
  if (!capture->is_valid) return cudaErrorStreamCaptureInvalidated;
  if (!is_joined) return cudaErrorStreamCaptureUnjoined;
  *nodes = std::move(capture->nodes);
  return cudaSuccess;
}

void run_graph(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> missing(nodes.size()), ready;
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    missing[n] = nodes[n].after.size();
    if (missing[n] == 0) ready.push_back(n);
    for (const size_t before : nodes[n].after) next[before].push_back(n);
  }
  while (!ready.empty()) {
    std::swap(ready[streams().random.below(ready.size())], ready.back());
    const size_t node = ready.back();
    ready.pop_back();
    run(nodes[node].work, nodes[node].is_host);
    for (const size_t n : next[node])
      if (--missing[n] == 0) ready.push_back(n);
  }
}

}  // namespace espalier::emulator
