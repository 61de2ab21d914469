// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/host_pieces.hpp"

namespace espalier {

void copy_to_host(const std::vector<HostCopy>& copies) {
  // Beside what is computed next, but behind what computed this.
  device::Event computed;
  computed.record(device::Stream::compute());
  device::Stream& stream = device::Stream::to_host();
  stream.wait_for(computed);
  {
    const device::StreamScope scope(stream);
    for (const HostCopy& c : copies) device::copy(c.to, c.from, c.bytes);
  }
  stream.synchronize();
}

char* HostPieces::reserve(int64_t bytes) {
  if (memory_.size() < bytes) memory_ = PinnedBuffer<char>(bytes);
  return memory_.data();
}

void HostPieces::fetch(std::vector<Piece>& pieces) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces)
    if (device::is_device(piece.data)) bytes += piece.bytes;
  if (bytes == 0) return;
  char* to = reserve(bytes);
  std::vector<HostCopy> copies;
  for (Piece& piece : pieces) {
    if (!device::is_device(piece.data)) continue;
    copies.push_back({to, piece.data, piece.bytes});
    piece.data = to;
    to += piece.bytes;
  }
  copy_to_host(copies);
}

const void* HostPieces::fetch(const void* data, int64_t bytes) {
  if (!device::is_device(data)) return data;
  char* to = reserve(bytes);
  copy_to_host({{to, data, bytes}});
  return to;
}

void* HostPieces::room_for(void* data, int64_t bytes) {
  return device::is_device(data) ? reserve(bytes) : data;
}

void HostPieces::store(void* data, int64_t bytes) {
  if (device::is_device(data)) device::copy_and_wait(data, memory_.data(), bytes);
}

}  // namespace espalier
