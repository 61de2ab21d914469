// SPDX-License-Identifier: Apache-2.0
// The device of a host build: everything is host memory and is done at once.
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/error.hpp"
#include "device/device.hpp"
#include "device/ledger.hpp"

namespace espalier::device {
namespace {

constexpr size_t kAlignment = 256;

void* allocate_aligned(int64_t bytes, size_t alignment) {
  const size_t rounded = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

int count() {
  return 0;
}
std::vector<std::string> buses() {
  return {};
}
void open(int) {}
void close() {}
Description describe() {
  return {};
}
Memory memory() {
  return {};
}

void* allocate(int64_t bytes, const std::string&) {
  void* data = allocate_aligned(bytes, kAlignment);
  Ledger::instance().add(data, bytes);
  return data;
}

void release(void* data) {
  Ledger::instance().remove(data);
  std::free(data);
}

void* allocate_pinned(int64_t bytes) {
  return allocate_aligned(bytes, 64);
}
void release_pinned(void* data) {
  std::free(data);
}
bool is_device(const void*) {
  return false;
}

void Stream::wait_for(const Event&) const {}
void Stream::synchronize() const {}
Stream& Stream::compute() {
  static Stream stream;
  return stream;
}
Stream& Stream::communication() {
  return compute();
}
Stream& Stream::to_host() {
  return compute();
}
Stream& Stream::to_device() {
  return compute();
}
Stream& Stream::current() {
  return compute();
}
StreamScope::StreamScope(Stream& stream) : before_(&stream) {}
StreamScope::~StreamScope() = default;

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(timing_, other.timing_);
  return *this;
}
Event::~Event() = default;
void Event::record(const Stream&) {}
bool Event::is_reached() const {
  return true;
}
void Event::wait() const {}
double Event::seconds(const Event&, const Event&) {
  return 0.0;
}

void copy(void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}
void copy_and_wait(void* to, const void* from, int64_t bytes) {
  copy(to, from, bytes);
}
void fill(void* data, int value, int64_t bytes) {
  if (bytes > 0) std::memset(data, value, static_cast<size_t>(bytes));
}

// A graph needs a device; the rules of the deck see to it that nobody asks for one here.
Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}
Graph::~Graph() = default;
void Graph::begin() {
  throw InternalError("a graph was to be recorded in a build without a device");
}
void Graph::end() {}
void Graph::abandon() {}
void Graph::launch() const {}
bool is_recording() {
  return false;
}

void push_range(const char*) {}
void pop_range() {}
bool uses_tuned_kernels() {
  return false;
}
void set_tuned_kernels(bool) {}

}  // namespace espalier::device
