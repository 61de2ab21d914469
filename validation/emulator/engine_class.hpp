// SPDX-License-Identifier: Apache-2.0
// Emulated device: the state of the kernel that runs, and of its block.
#pragma once

#include <boost/context/fiber.hpp>
#include <memory>
#include <string>
#include <vector>

#include "emulator/engine.hpp"
#include "emulator/random.hpp"
#include "emulator/sanitizer_fibers.hpp"

namespace espalier::emulator {

constexpr unsigned char kPoison = 0xff;

/// A fiber and the thread of the block that it carries at the moment.
struct Worker {
  boost::context::fiber paused;
  int thread = -1;
  FiberStack stack;
};

struct Warp {
  // One bit a lane. None set in unstarted, ready: the lane waits, is running or has returned.
  uint32_t members = 0, unstarted = 0, ready = 0, returned = 0;
  // The meeting that some lanes have come to.
  uint32_t came = 0;
  const char* what = nullptr;
  void (*finish)(void* const*) = nullptr;
  Site site;
  void* slots[kLanes] = {};

  uint32_t runnable() const { return unstarted | ready; }
};

struct Copy {
  void* to;
  const void* from;
  bool valid;
  int group;
};
struct Copies {
  std::vector<Copy> waiting;
  int closed = 0;  // groups so far
};

/// Runs one kernel at a time; see engine.hpp.
class Engine {
 public:
  Engine();
  void run(const char* label, dim3 grid, dim3 block, size_t shared_bytes,
           const std::function<void()>& body);
  std::string position() const;
  bool is_running() const { return body_ != nullptr; }

  unsigned char* shared() const { return shared_; }
  size_t shared_bytes() const { return shared_bytes_; }
  int lane() const { return current_ % kLanes; }
  int meet_block(int value, Site site);
  void meet_warp(const char* what, unsigned mask, void* slot, void (*finish)(void* const*),
                 Site site);
  Copies& copies() { return copies_[static_cast<size_t>(current_)]; }

 private:
  void run_block();
  void check_red_zones() const;
  void carry();
  void end_thread();
  int choose();
  void give_way();
  void become(Worker& worker, int thread);
  void jump(Worker& to);
  Worker& idle_worker();
  std::string name(int thread) const;
  [[noreturn]] void report_stuck();

  Random random_;
  // The launch
  const char* label_ = "";
  const std::function<void()>* body_ = nullptr;
  int threads_ = 0, warps_ = 0;
  unsigned char* shared_end_ = nullptr;  // what follows cannot be touched
  unsigned char* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  // The block
  Warp warp_[kMostThreads / kLanes];
  int returned_ = 0, last_returned_ = -1;
  int came_ = 0, first_came_ = -1;  // at the barrier
  Site barrier_;
  int sum_[2] = {0, 0};  // of this barrier and of the one before, which some still read
  unsigned barriers_ = 0;
  std::vector<Copies> copies_;
  // Who runs
  int current_ = 0, first_lane_ = 0;
  Worker host_;
  Worker* worker_ = &host_;
  Worker* before_ = nullptr;
  std::vector<Worker*> carrier_, idle_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

Engine& engine();
inline std::string text(Site site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

}  // namespace espalier::emulator
