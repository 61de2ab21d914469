// SPDX-License-Identifier: Apache-2.0
// Emulated device: its memory, which the host cannot touch. Allocations lie in one reserved range
// of addresses and are closed but while device work runs; then the first touch of an allocation
// opens it, and the end of the work closes it again. An allocation ends (rounded up to 256 bytes)
// where a MiB begins that is never there, fresh memory is all 0xff, freed addresses never come
// back. What goes wrong ends the process with the address and the allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace espalier::emulator {

/// 256-byte aligned, nullptr where the device has too little memory left.
void* allocate_device(size_t bytes, int device);
/// False if `data` is not the start of a live allocation. Also checks what lies beside it.
bool free_device(void* data);
/// Names an allocation in reports.
void name_device_memory(const void* data, const std::string& name);

struct DeviceMemoryUse {
  size_t free, total;
};
DeviceMemoryUse device_memory_use(int device);

bool is_device_address(const void* data);
/// The device of the live allocation that holds [data, data + bytes), -1 if none does.
int device_of(const void* data, size_t bytes);

/// Device work runs on this thread while one of these lives; they may nest.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};
/// Host code runs within device work (a host function of a stream).
class HostAccess {
 public:
  HostAccess();
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

 private:
  int depth_;
};

}  // namespace espalier::emulator
