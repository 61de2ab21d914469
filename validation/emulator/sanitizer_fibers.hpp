// SPDX-License-Identifier: Apache-2.0
// Emulated device: tells AddressSanitizer which stack the program goes on with.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace espalier::emulator {

#if defined(__SANITIZE_ADDRESS__)
/// Bottom unknown (nullptr) is the host's own stack, learnt when a fiber is first entered.
struct FiberStack {
  const void* bottom = nullptr;
  size_t bytes = 0;
  FiberStack() = default;
  FiberStack(void* top, size_t size) : bottom(static_cast<char*>(top) - size), bytes(size) {}
};
inline FiberStack& host_stack() {
  static FiberStack stack;
  return stack;
}
inline void start_switch(void** saved, const FiberStack& to) {
  const FiberStack& stack = to.bottom == nullptr ? host_stack() : to;
  __sanitizer_start_switch_fiber(saved, stack.bottom, stack.bytes);
}
/// `saved` nullptr: the first entry of a fiber.
inline void finish_switch(void* saved, bool from_host) {
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(saved, &bottom, &bytes);
  if (from_host) {
    host_stack().bottom = bottom;
    host_stack().bytes = bytes;
  }
}
#else
struct FiberStack {
  FiberStack() = default;
  FiberStack(void*, size_t) {}
};
inline void start_switch(void**, const FiberStack&) {}
inline void finish_switch(void*, bool) {}
#endif

}  // namespace espalier::emulator
