// SPDX-License-Identifier: Apache-2.0
// Where the threads of a block meet, and what a kernel asks of the engine.
#include <cstring>

#include "emulator/engine_class.hpp"

namespace espalier::emulator {
namespace {

bool is_same(Site a, Site b) {
  return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

}  // namespace

int Engine::meet_block(int value, Site site) {
  if (returned_ > 0)
    die("waits at the barrier " + text(site) + ", but " + name(last_returned_) +
        " has returned and never comes");
  if (came_ == 0) {
    barrier_ = site;
    first_came_ = current_;
  } else if (!is_same(barrier_, site)) {
    die("waits at the barrier " + text(site) + " while " + name(first_came_) +
        " waits at another, " + text(barrier_));
  }
  const unsigned parity = barriers_ % 2;
  sum_[parity] += value;
  if (++came_ < threads_) {
    give_way();
    return sum_[parity];
  }
  came_ = 0;
  ++barriers_;
  sum_[barriers_ % 2] = 0;
  for (int w = 0; w < warps_; ++w) warp_[w].ready = warp_[w].members;
  first_lane_ = static_cast<int>(random_.below(kLanes));
  give_way();
  return sum_[parity];
}

void Engine::meet_warp(const char* what, unsigned mask, void* slot, void (*finish)(void* const*),
                       Site site) {
  Warp& warp = warp_[current_ / kLanes];
  const uint32_t bit = 1u << lane();
  if (mask != ~0u)
    die(std::string(what) + " at " + text(site) + " with a mask that is not the full warp");
  if (warp.members != ~0u)
    die(std::string(what) + " at " + text(site) + " in a warp of fewer than 32 threads");
  if (warp.returned != 0)
    die(std::string(what) + " at " + text(site) + ", but lane " +
        std::to_string(__builtin_ctz(warp.returned)) + " of the warp has returned");
  if (warp.came == 0) {
    warp.what = what;
    warp.finish = finish;
    warp.site = site;
  } else if (warp.finish != finish || !is_same(warp.site, site)) {
    die(std::string("comes to ") + what + " at " + text(site) + " while lane " +
        std::to_string(__builtin_ctz(warp.came)) + " of its warp waits at " + warp.what + " at " +
        text(warp.site));
  }
  warp.slots[lane()] = slot;
  warp.came |= bit;
  if (warp.came != ~0u) {
    give_way();
    return;
  }
  finish(warp.slots);
  warp.came = 0;
  warp.ready = ~bit;
}

void Engine::report_stuck() {
  std::string where;
  if (came_ > 0)
    where += "\n  " + std::to_string(came_) + " of " + std::to_string(threads_) +
             " threads wait at the barrier " + text(barrier_);
  for (int w = 0; w < warps_; ++w)
    if (warp_[w].came != 0)
      where += "\n  " + std::to_string(__builtin_popcount(warp_[w].came)) +
               " of 32 lanes of warp " + std::to_string(w) + " wait at " + warp_[w].what + " " +
               text(warp_[w].site);
  die("no thread of the block can go on:" + where);
}

unsigned char* shared_memory_base() {
  if (engine().shared_bytes() == 0) die("uses shared memory, but was launched with none");
  return engine().shared();
}
bool is_shared(const void* data, size_t bytes) {
  const auto* const p = static_cast<const unsigned char*>(data);
  return p >= engine().shared() && p + bytes <= engine().shared() + engine().shared_bytes();
}
int lane() {
  return engine().lane();
}
int meet_block(int value, Site site) {
  return engine().meet_block(value, site);
}
void meet_warp(const char* what, unsigned mask, void* slot, void (*finish)(void* const* slots),
               Site site) {
  engine().meet_warp(what, mask, slot, finish, site);
}

void copy_late(void* to, const void* from, bool valid) {
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
    die("an asynchronous copy from or to an address that is not 16-byte aligned");
  if (!is_shared(to, 16)) die("an asynchronous copy to outside of the block's shared memory");
  memset(to, kPoison, 16);
  Copies& own = engine().copies();
  own.waiting.push_back({to, from, valid, own.closed});
}
void close_copies() {
  ++engine().copies().closed;
}
void wait_copies(int pending) {
  Copies& own = engine().copies();
  size_t done = 0;
  while (done < own.waiting.size() && own.waiting[done].group < own.closed - pending) {
    const Copy& copy = own.waiting[done++];
    if (copy.valid)
      memcpy(copy.to, copy.from, 16);
    else
      memset(copy.to, 0, 16);
  }
  own.waiting.erase(own.waiting.begin(), own.waiting.begin() + static_cast<ptrdiff_t>(done));
}

}  // namespace espalier::emulator
