// SPDX-License-Identifier: Apache-2.0
// Signals and the time limit of a run.
#include "commands/stop_request.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

bool is_held(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

int64_t seconds_since_1970() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

TEST(StopRequest, NotesTheFirstSignalOnly) {
  SignalWatch watch(OnSignal::save_and_stop);
  EXPECT_EQ(watch.requested(), StopReason::none);
  std::raise(SIGUSR1);
  EXPECT_EQ(watch.requested(), StopReason::sigusr1);
  std::raise(SIGTERM);
  EXPECT_EQ(watch.requested(), StopReason::sigusr1);
}

TEST(StopRequest, EachWatchBeginsAnewAndPutsBackWhatWas) {
  for (int i = 0; i < 2; ++i) {
    SignalWatch watch(OnSignal::save_and_stop);
    EXPECT_TRUE(is_held(SIGTERM) && is_held(SIGUSR1));
    EXPECT_EQ(watch.requested(), StopReason::none);
    std::raise(SIGTERM);
    EXPECT_EQ(watch.requested(), StopReason::sigterm);
    std::raise(SIGUSR1);  // too late to be asked for, and no reason to die of it
  }
  EXPECT_FALSE(is_held(SIGTERM) || is_held(SIGUSR1));
}

TEST(StopRequest, WhatCameBeforeTheWatchIsNotLost) {
  hold_stop_signals();
  std::raise(SIGUSR1);
  {
    SignalWatch watch(OnSignal::save_and_stop);
    EXPECT_EQ(watch.requested(), StopReason::sigusr1);
  }
  release_stop_signals();
}

// Also from another thread, as a signal to the process may come.
TEST(StopRequest, SignalsToTheProcessArrive) {
  SignalWatch watch(OnSignal::save_and_stop);
  std::thread([] { ::kill(::getpid(), SIGTERM); }).join();
  EXPECT_EQ(watch.requested(), StopReason::sigterm);
}

TEST(StopRequest, OneWatchAtATime) {
  SignalWatch watch(OnSignal::save_and_stop);
  EXPECT_THROW(SignalWatch(OnSignal::save_and_stop), InternalError);
  std::raise(SIGTERM);  // the refused one left the handlers alone
  EXPECT_EQ(watch.requested(), StopReason::sigterm);
}

TEST(StopRequestDeathTest, DieEndsTheProcess) {
  for (const int signal : {SIGTERM, SIGUSR1})
    EXPECT_EXIT(
        {
          std::signal(signal, [](int) {});  // as MPICH does for SIGUSR1
          SignalWatch watch(OnSignal::die);
          std::raise(signal);
        },
        testing::KilledBySignal(signal), "");
}

TEST(StopRequest, ReasonsHaveNames) {
  EXPECT_STREQ(stop_reason_name(StopReason::none), "none");
  EXPECT_STREQ(stop_reason_name(StopReason::sigterm), "SIGTERM");
  EXPECT_STREQ(stop_reason_name(StopReason::sigusr1), "SIGUSR1");
  EXPECT_STREQ(stop_reason_name(StopReason::time_limit), "time limit");
}

TEST(TimeLimit, LeavesTimeForTwoStepsAndTwoSaves) {
  unsetenv("SLURM_JOB_END_TIME");
  RunConfig config;
  config.time_limit = 1000.0;
  const TimeLimit limit(config, 500.0);
  ASSERT_TRUE(limit.end_s());
  EXPECT_EQ(*limit.end_s(), 1500.0);
  EXPECT_FALSE(limit.must_stop(1500.0 - 51.0, 10.0, 15.0));
  EXPECT_TRUE(limit.must_stop(1500.0 - 50.5, 10.0, 15.0));
  EXPECT_TRUE(limit.must_stop(1500.0 - 50.5, 10.0, 15.5));
  EXPECT_FALSE(limit.must_stop(1500.0 - 1.0, 0.0, 0.0));
  EXPECT_TRUE(limit.must_stop(1e9, 0.0, 0.0));
}

TEST(TimeLimit, ThereIsNoneUnlessSomebodyNamesIt) {
  unsetenv("SLURM_JOB_END_TIME");
  const TimeLimit limit(RunConfig{}, 0.0);
  EXPECT_FALSE(limit.end_s());
  EXPECT_FALSE(limit.must_stop(1e12, 1e6, 1e6));
}

TEST(TimeLimit, SlurmNamesTheEndOfTheJobUnlessTheDeckDoes) {
  setenv("SLURM_JOB_END_TIME", std::to_string(seconds_since_1970() + 600).c_str(), 1);
  const double now = monotonic_seconds();
  const TimeLimit limit(RunConfig{}, now - 50.0);
  ASSERT_TRUE(limit.end_s());
  EXPECT_NEAR(*limit.end_s(), now + 600.0, 2.0);
  RunConfig config;
  config.time_limit = 20.0;
  EXPECT_EQ(*TimeLimit(config, 5.0).end_s(), 25.0);
  unsetenv("SLURM_JOB_END_TIME");
}

TEST(TimeLimit, BadEndsAreNamed) {
  for (const char* text :
       {"", "soon", "12x", "-5", "1e10", " 99999999999", "99999999999999999999"}) {
    std::string fault;
    EXPECT_FALSE(parse_job_end(text, 1000.0, fault)) << text;
    EXPECT_FALSE(fault.empty()) << text;
    setenv("SLURM_JOB_END_TIME", text, 1);
    testing::internal::CaptureStderr();
    EXPECT_FALSE(TimeLimit(RunConfig{}, 0.0).end_s()) << text;
    EXPECT_NE(testing::internal::GetCapturedStderr().find("warning: SLURM_JOB_END_TIME"),
              std::string::npos);
  }
  std::string fault;
  EXPECT_FALSE(parse_job_end("1000", 1000.0, fault));
  EXPECT_EQ(fault, "lies in the past");
  EXPECT_EQ(parse_job_end("1001", 1000.0, fault), std::optional<double>(1001.0));
  unsetenv("SLURM_JOB_END_TIME");
}

}  // namespace
}  // namespace espalier
