// SPDX-License-Identifier: Apache-2.0
// Who wants a run to stop before its last step: a signal, or the clock of the batch system. The run
// asks after each step; ranks may see different answers and must agree.
#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "deck/config.hpp"

namespace espalier {

enum class StopReason { none, sigterm, sigusr1, time_limit };

/// "SIGTERM", "SIGUSR1", "time limit"; "none".
const char* stop_reason_name(StopReason reason);

/// Holds SIGTERM (batch systems end jobs with it) and SIGUSR1 (what sbatch --signal is often told
/// to send) back from this thread and all that it starts afterwards, so first of all in main: what
/// comes before the run asks is not lost. No handler: the system would put its frame where a matrix
/// kernel of oneDNN has the stack pointer, which may be in the middle of its data.
void hold_stop_signals();
/// Lets both through to this thread with their default action, which ends the process.
void release_stop_signals();

/// Takes note of both signals as long as it lives. OnSignal::die: lets them through. One at a time
/// in a process, and asked by one thread.
class SignalWatch {
 public:
  /// Errors  Internal if there is one already
  explicit SignalWatch(OnSignal wanted);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The first signal since the watch began, or held back before, on this rank.
  StopReason requested();

 private:
  bool watches_;
  StopReason first_ = StopReason::none;
  sigset_t old_mask_ = {};
};

/// The end of the program's wall time: run.time_limit from its start on, or where that is 0 the
/// projected end of the job that Slurm gives by SLURM_JOB_END_TIME (seconds since 1970), or never.
class TimeLimit {
 public:
  /// `start_s`: when the program began, by core/clock. Warns where the variable is no time to come.
  TimeLimit(const RunConfig& config, double start_s);

  /// Whether there is time for no further step: less is left than two steps as long as the longest
  /// so far, two saves as long as the last, and a second.
  bool must_stop(double now_s, double longest_step_s, double save_duration_s) const;

  /// By core/clock; nothing where there is no limit.
  std::optional<double> end_s() const { return end_s_; }

 private:
  std::optional<double> end_s_;
};

/// Seconds since 1970 that `text` says, if it is a whole number above `now`; else nothing, and
/// `fault` says why. An unlimited job has no or a far end.
std::optional<double> parse_job_end(const std::string& text, double now, std::string& fault);

}  // namespace espalier
