// SPDX-License-Identifier: Apache-2.0
// Waiting: test, yield, feed the watchdog.
#include "grid/wait.hpp"

#include <sched.h>

#include <chrono>
#include <utility>

namespace espalier {
namespace {

Watchdog& watchdog() {
  static Watchdog hook;
  return hook;
}

}  // namespace

void set_watchdog(Watchdog hook) {
  watchdog() = std::move(hook);
}

double now_s() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

void wait_until(const std::function<bool()>& poll, const char* axis, const char* operation,
                CommStats& stats) {
  const double start = now_s();
  while (!poll()) {
    sched_yield();
    if (watchdog()) watchdog()(WaitPlace{axis, operation, now_s() - start});
  }
  stats.exposed_seconds += now_s() - start;
}

}  // namespace espalier
