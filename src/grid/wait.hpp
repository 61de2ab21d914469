// SPDX-License-Identifier: Apache-2.0
// The one function that waits for other ranks, what it counts, and the watchdog that it feeds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace espalier {

/// What one axis communicated, on this rank.
///
/// bytes    sent by this rank, by the least that any algorithm must send on n ranks, so that the
///          number does not depend on the MPI library: all_reduce of B bytes 2 B (n-1)/n,
///          reduce_scatter of B bytes in all B (n-1)/n, all_gather of b bytes a rank b (n-1),
///          all_to_all and exchange what goes to others, broadcast B on the root, send B; receiving
///          and barrier 0
/// calls    operations started
/// seconds  from start to the moment completion was seen, added over operations: operations that
///          overlap each other or computation count fully
/// exposed_seconds  time inside the wait function: what computation did not hide
struct CommStats {
  int64_t bytes = 0;
  int64_t calls = 0;
  double seconds = 0.0;
  double exposed_seconds = 0.0;
};

/// Where a rank waits; handed to the watchdog.
struct WaitPlace {
  const char* axis;
  const char* operation;
  double waited_s;  // in this wait, so far
};

/// Called again and again while this rank waits, so it must be cheap. It may throw to end the wait
/// with an error. Empty: nobody watches. Makes no MPI call.
using Watchdog = std::function<void(const WaitPlace&)>;
void set_watchdog(Watchdog watchdog);

/// Calls `poll` until it is true; between two calls gives up the core, because ranks may outnumber
/// cores and a blocking MPI call would spin through its whole time slice. Adds the time to
/// stats.exposed_seconds.
void wait_until(const std::function<bool()>& poll, const char* axis, const char* operation,
                CommStats& stats);

}  // namespace espalier
