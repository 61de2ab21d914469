// SPDX-License-Identifier: Apache-2.0
#include "commands/stop_request.hpp"

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

std::atomic<bool> is_watched{false};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::sigterm: return "SIGTERM";
    case StopReason::sigusr1: return "SIGUSR1";
    case StopReason::time_limit: return "time limit";
  }
  return "?";
}

void hold_stop_signals() {
  const sigset_t set = stop_signals();
  ESPALIER_REQUIRE(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0, "signals cannot be held back");
}

void release_stop_signals() {
  // The default must be set, not left: MPICH handles SIGUSR1, by which the signal would be lost.
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(OnSignal wanted) : watches_(wanted == OnSignal::save_and_stop) {
  ESPALIER_REQUIRE(!is_watched.exchange(true), "signals are watched already");
  pthread_sigmask(SIG_SETMASK, nullptr, &old_mask_);
  if (watches_)
    hold_stop_signals();
  else
    release_stop_signals();
}

SignalWatch::~SignalWatch() {
  requested();  // what came late would end the process once it is let through
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  is_watched = false;
}

StopReason SignalWatch::requested() {
  if (!watches_) return StopReason::none;
  const sigset_t set = stop_signals();
  const timespec now = {0, 0};
  for (int signal = 0; (signal = sigtimedwait(&set, nullptr, &now)) > 0;)
    if (first_ == StopReason::none)
      first_ = signal == SIGTERM ? StopReason::sigterm : StopReason::sigusr1;
  return first_;
}

std::optional<double> parse_job_end(const std::string& text, double now, std::string& fault) {
  int64_t seconds = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, seconds);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) {
    fault = "is no whole number of seconds since 1970";
    return std::nullopt;
  }
  if (static_cast<double>(seconds) <= now) {
    fault = "lies in the past";
    return std::nullopt;
  }
  return static_cast<double>(seconds);
}

TimeLimit::TimeLimit(const RunConfig& config, double start_s) {
  if (config.time_limit > 0.0) {
    end_s_ = start_s + config.time_limit;
    return;
  }
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string fault;
  const std::optional<double> end = parse_job_end(text, now, fault);
  if (end)
    end_s_ = monotonic_seconds() + (*end - now);
  else
    warn("SLURM_JOB_END_TIME = {} {}, so no time limit is known; set run.time_limit",
         std::string(text), fault);
}

bool TimeLimit::must_stop(double now_s, double longest_step_s, double save_duration_s) const {
  return end_s_ && *end_s_ - now_s < 2.0 * longest_step_s + 2.0 * save_duration_s + 1.0;
}

}  // namespace espalier
