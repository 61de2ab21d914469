// SPDX-License-Identifier: Apache-2.0
// Emulated device: runs a kernel's blocks one after the other, the threads of a block as fibers on
// one host thread. A fiber gives way only where threads have to meet, and the order in which
// blocks, warps and lanes run is random (ESPALIER_EMULATOR_SEED), so that a missing barrier or a
// dependence on the order shows in the results. What a device would answer with a hang or with
// garbage ends the process with the kernel, block, thread and line: barriers that some threads do
// not reach, warp operations that some lanes do not reach, shared memory written past its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "emulator/include/vector_types.h"

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace espalier::emulator {

constexpr size_t kMostShared = 227 * 1024;  // a block's, compute capability 9.0
constexpr int kMostThreads = 1024;
constexpr int kLanes = 32;

/// Where a kernel calls an operation at which threads meet.
struct Site {
  const char* file = nullptr;
  int line = 0;
};

/// Ends the process with the message and, inside a kernel, its label, block and thread.
[[noreturn]] void die(const std::string& message);
/// "kernel 'x', block (..), thread (..)", empty outside a kernel. For reports of faults.
std::string position();

/// What is wrong with a launch, nullptr if nothing is.
const char* refuse_launch(dim3 grid, dim3 block, size_t shared_bytes);

/// Runs the kernel to its end. `body` is called once a thread. Not reentrant: one kernel at a time
/// in the process, which the caller sees to.
void run_kernel(const char* label, dim3 grid, dim3 block, size_t shared_bytes,
                const std::function<void()>& body);

// Inside a kernel

/// The block's dynamic shared memory, 128-byte aligned; checks that the kernel was given any.
unsigned char* shared_memory_base();
/// Whether [data, data + bytes) lies in the block's shared memory.
bool is_shared(const void* data, size_t bytes);
int lane();

/// A barrier of the block; returns the sum of `value` over its threads.
int meet_block(int value, Site site);

/// A meeting of the lanes in `mask`, which must be the whole warp: each brings a slot, the last one
/// to come calls finish(slots), then all go on.
void meet_warp(const char* what, unsigned mask, void* slot, void (*finish)(void* const* slots),
               Site site);

/// This thread's asynchronous copies of 16 bytes: done no earlier than the wait that covers them.
void copy_late(void* to, const void* from, bool valid);
void close_copies();
void wait_copies(int pending);

}  // namespace espalier::emulator
