// SPDX-License-Identifier: Apache-2.0
// Who runs when: the order of blocks, and the fibers that carry a block's threads.
#include "emulator/engine.hpp"

#include <sys/mman.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "emulator/engine_class.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace espalier::emulator {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = 256 * 1024;  // pages are touched only where a kernel needs them
constexpr size_t kRedZone = 256;
constexpr unsigned char kRed = 0xe5;

std::string triple(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
}

}  // namespace

/// Never destroyed: its fibers are not unwound when the process ends.
Engine& engine() {
  static Engine* const one = new Engine;
  return *one;
}

Engine::Engine() : random_(seed_of_environment()) {
  constexpr size_t kPage = 4096, kSize = (kMostShared + 2 * kRedZone + kPage) / kPage * kPage;
  constexpr size_t kGuard = size_t{1} << 20;
  void* const range = mmap(nullptr, kGuard + kSize + kGuard, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  unsigned char* const begin = static_cast<unsigned char*>(range) + kGuard;
  if (range == MAP_FAILED || mprotect(begin, kSize, PROT_READ | PROT_WRITE) != 0)
    die("no memory for the shared memory of a block");
  shared_end_ = begin + kSize;
  copies_.resize(kMostThreads);
  carrier_.resize(kMostThreads);
}

std::string Engine::name(int thread) const {
  const auto t = static_cast<unsigned>(thread);
  return "thread " +
         triple(t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y));
}

std::string Engine::position() const {
  if (!is_running()) return "";
  return std::string("kernel '") + label_ + "', block " +
         triple(blockIdx.x, blockIdx.y, blockIdx.z) + ", " + name(current_);
}

void Engine::run(const char* label, dim3 grid, dim3 block, size_t shared_bytes,
                 const std::function<void()>& body) {
  if (is_running()) die("a kernel is started inside a kernel");
  label_ = label;
  body_ = &body;
  gridDim = grid;
  blockDim = block;
  threads_ = static_cast<int>(block.x * block.y * block.z);
  warps_ = (threads_ + kLanes - 1) / kLanes;
  shared_bytes_ = shared_bytes;
  shared_ = shared_end_ - (shared_bytes + 127) / 128 * 128;
  memset(shared_ - kRedZone, kRed, kRedZone);
  memset(shared_ + shared_bytes, kRed, static_cast<size_t>(shared_end_ - shared_) - shared_bytes);
  // A walk of the blocks in scattered order without a list of them: step and count have no common
  // divisor.
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  uint64_t at = random_.below(count), step = 1 + random_.below(count);
  while (std::gcd(step, count) != 1) ++step;
  for (uint64_t n = 0; n < count; ++n) {
    blockIdx =
        make_uint3(static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                   static_cast<unsigned>(at / grid.x / grid.y));
    run_block();
    at = (at + step) % count;
  }
  body_ = nullptr;
}

void Engine::run_block() {
  for (int w = 0; w < warps_; ++w) {
    const int lanes = threads_ - w * kLanes;
    warp_[w] = Warp{};
    warp_[w].members = lanes >= kLanes ? ~0u : (1u << lanes) - 1;
    warp_[w].unstarted = warp_[w].members;
  }
  returned_ = came_ = 0;
  sum_[0] = sum_[1] = 0;
  barriers_ = 0;
  current_ = static_cast<int>(random_.below(static_cast<uint64_t>(threads_)));
  memset(shared_, kPoison, shared_bytes_);

  Worker& first = idle_worker();
  worker_ = &host_;
  become(first, choose());
  jump(first);
  check_red_zones();
}

void Engine::check_red_zones() const {
  for (const unsigned char* p = shared_ - kRedZone; p < shared_end_; ++p) {
    if (p == shared_) p += shared_bytes_;
    if (p < shared_end_ && *p != kRed)
      die("wrote at byte " + std::to_string(p - shared_) + " of " + std::to_string(shared_bytes_) +
          " bytes of shared memory (a thread of this block)");
  }
}

Worker& Engine::idle_worker() {
  if (idle_.empty()) {
    workers_.push_back(std::make_unique<Worker>());
    Worker* const worker = workers_.back().get();
    context::protected_fixedsize_stack allocator(kStackBytes);
    const context::stack_context stack = allocator.allocate();
    worker->stack = FiberStack(stack.sp, stack.size);
    worker->paused =
        context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack),
                       allocator, [this](context::fiber&& from) {
                         finish_switch(nullptr, before_ == &host_);
                         before_->paused = std::move(from);
                         carry();
                         return context::fiber();  // not reached
                       });
    return *worker;
  }
  Worker* const worker = idle_.back();
  idle_.pop_back();
  return *worker;
}

/// Makes `thread` the running one, on `worker`.
void Engine::become(Worker& worker, int thread) {
  Warp& warp = warp_[thread / kLanes];
  const uint32_t bit = 1u << thread % kLanes;
  warp.unstarted &= ~bit;
  warp.ready &= ~bit;
  worker.thread = thread;
  carrier_[static_cast<size_t>(thread)] = &worker;
  current_ = thread;
  const auto t = static_cast<unsigned>(thread);
  if (blockDim.y == 1 && blockDim.z == 1) {
    threadIdx = make_uint3(t, 0, 0);
  } else {
    threadIdx =
        make_uint3(t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y));
  }
}

/// Goes on in `to`; returns when another fiber jumps back to this one.
void Engine::jump(Worker& to) {
  Worker* const self = worker_;
  before_ = self;
  worker_ = &to;
  void* saved = nullptr;
  start_switch(&saved, to.stack);
  context::fiber from = std::move(to.paused).resume();
  finish_switch(saved, before_ == &host_);
  before_->paused = std::move(from);
  worker_ = self;
}

/// The next thread to run, -1 if none can: mostly of the same warp, lanes from a random one on.
int Engine::choose() {
  int w = current_ / kLanes;
  if (warp_[w].runnable() == 0 || random_.below(16) == 0) {
    const int start = static_cast<int>(random_.below(static_cast<uint64_t>(warps_)));
    int n = 0;
    while (n < warps_ && warp_[(start + n) % warps_].runnable() == 0) ++n;
    if (n == warps_) return -1;
    w = (start + n) % warps_;
    first_lane_ = static_cast<int>(random_.below(kLanes));
  }
  const uint32_t lanes = warp_[w].runnable();
  const uint32_t later = lanes & ~0u << first_lane_;
  return w * kLanes + __builtin_ctz(later != 0 ? later : lanes);
}

/// Lets other threads run until this one can go on.
void Engine::give_way() {
  const int self = current_;
  const int next = choose();
  if (next < 0) report_stuck();
  const bool starts = (warp_[next / kLanes].unstarted >> next % kLanes & 1u) != 0;
  Worker& worker = starts ? idle_worker() : *carrier_[static_cast<size_t>(next)];
  become(worker, next);
  if (next != self) jump(worker);
}

/// What a fiber does for ever: threads to their ends, one after the other.
void Engine::carry() {
  Worker& self = *worker_;
  for (;;) {
    (*body_)();
    end_thread();
    const int next = choose();
    if (next >= 0 && (warp_[next / kLanes].unstarted >> next % kLanes & 1u) != 0) {
      become(self, next);
      continue;
    }
    if (next < 0 && returned_ != threads_) report_stuck();
    idle_.push_back(&self);
    if (next < 0) {
      jump(host_);
    } else {
      Worker& worker = *carrier_[static_cast<size_t>(next)];
      become(worker, next);
      jump(worker);
    }
  }
}

void Engine::end_thread() {
  Copies& own = copies();
  if (!own.waiting.empty())
    die("returned with " + std::to_string(own.waiting.size()) +
        " asynchronous copies under way; wait_for_copies<0>() before the end");
  own.closed = 0;
  Warp& warp = warp_[current_ / kLanes];
  warp.returned |= 1u << lane();
  last_returned_ = current_;
  ++returned_;
  if (came_ > 0)
    die("returned while " + name(first_came_) + " waits for it at the barrier " + text(barrier_));
  if (warp.came != 0)
    die("returned while lanes of its warp wait for it at " + std::string(warp.what) + " " +
        text(warp.site));
}

std::string position() {
  return engine().position();
}

void die(const std::string& message) {
  const std::string where = position();
  fprintf(stderr, "emulated device: %s%s%s\n", where.c_str(), where.empty() ? "" : ": ",
          message.c_str());
  fflush(stderr);
  abort();
}

const char* refuse_launch(dim3 grid, dim3 block, size_t shared_bytes) {
  constexpr unsigned kMostX = 0x7fffffffu, kMostYZ = 65535;
  if (grid.x > kMostX || grid.y > kMostYZ || grid.z > kMostYZ)
    return "the grid is larger than 2147483647 x 65535 x 65535 blocks";
  if (block.x == 0 || block.y == 0 || block.z == 0) return "the block has no threads";
  if (block.z > 64 || uint64_t{block.x} * block.y * block.z > kMostThreads)
    return "the block has more than 1024 threads, or more than 64 in z";
  if (shared_bytes > kMostShared) return "more than 227 KiB of shared memory a block";
  return nullptr;
}

void run_kernel(const char* label, dim3 grid, dim3 block, size_t shared_bytes,
                const std::function<void()>& body) {
  engine().run(label, grid, block, shared_bytes, body);
}

}  // namespace espalier::emulator
