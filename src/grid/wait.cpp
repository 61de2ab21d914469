// SPDX-License-Identifier: Apache-2.0
// Waiting: test, yield, feed the watchdog.
#include "grid/wait.hpp"

#include <sched.h>

#include <utility>

#include "core/clock.hpp"

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

void wait_until(const std::function<bool()>& poll, const char* axis, const char* operation,
                CommStats& stats) {
  const double start = monotonic_seconds();
  while (!poll()) {
    sched_yield();
    if (watchdog()) watchdog()(WaitPlace{axis, operation, monotonic_seconds() - start});
  }
  stats.exposed_seconds += monotonic_seconds() - start;
}

}  // namespace espalier
