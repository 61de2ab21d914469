// SPDX-License-Identifier: Apache-2.0
// The effective-time ratio from the records of earlier attempts.
#include "monitor/run_time.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "monitor/metrics.hpp"

namespace espalier {
namespace {

class RunTimeFile {
 public:
  explicit RunTimeFile(const std::string& name)
      : path(testing::TempDir() + "/espalier_time_" + name) {
    std::filesystem::remove(path);
  }
  // An attempt that does steps [first, last], each of 2 s, one every 3 s, after 10 s of start.
  void attempt(int64_t first, int64_t last) {
    MetricsWriter writer(path, MetricsMode::append);
    RunRecord run;
    run.first_step = first;
    writer.write(run);
    for (int64_t step = first; step <= last; ++step) {
      StepMetrics m;
      m.step = step;
      m.step_seconds = 2.0;
      m.elapsed_seconds = 10.0 + 3.0 * static_cast<double>(step - first + 1);
      writer.write(m);
    }
  }
  void add(const std::string& line) { std::ofstream(path, std::ios::app) << line << '\n'; }
  std::string path;
};

TEST(RunTime, NoFileIsNoAttempt) {
  const RunTime time = read_run_time(testing::TempDir() + "/espalier_time_none", 10);
  EXPECT_EQ(time.attempts, 0);
  EXPECT_EQ(time.total_seconds, 0.0);
  EXPECT_EQ(time.effective_ratio(), 0.0);
}

TEST(RunTime, LostStepsDoNotCountAndTheirTimeDoes) {
  RunTimeFile file("killed");
  file.attempt(1, 15);   // killed; the last checkpoint is that of step 10
  file.attempt(11, 13);  // killed before the next one
  const RunTime time = read_run_time(file.path, 10);
  EXPECT_EQ(time.attempts, 2);
  EXPECT_EQ(time.productive_seconds, 10 * 2.0);
  EXPECT_EQ(time.total_seconds, (10.0 + 45.0) + (10.0 + 9.0));
  EXPECT_EQ(time.effective_ratio(), 20.0 / 74.0);
  EXPECT_EQ(time.damaged_lines, 0);
  EXPECT_EQ(read_run_time(file.path, 0).productive_seconds, 0.0);
}

TEST(RunTime, TheLaterRecordOfAStepCounts) {
  RunTimeFile file("twice");
  file.attempt(1, 3);
  MetricsWriter writer(file.path, MetricsMode::append);
  writer.write(RunRecord{});
  StepMetrics m;
  m.step = 3;
  m.step_seconds = 5.0;
  m.elapsed_seconds = 6.0;
  writer.write(m);
  EndRecord end;
  end.total_seconds = 8.5;
  writer.write(end);
  const RunTime time = read_run_time(file.path, 3);
  EXPECT_EQ(time.productive_seconds, 2.0 + 2.0 + 5.0);
  EXPECT_EQ(time.total_seconds, 19.0 + 8.5);  // what the end record says, since it is more
}

TEST(RunTime, DamagedLinesAreLeftOutAndCounted) {
  RunTimeFile file("damaged");
  file.attempt(1, 2);
  const RunTime whole = read_run_time(file.path, 9);
  const char* damage[] = {
      "{\"kind\":\"st",
      "[1, 2]",
      "7",
      "{\"step\":3}",
      "{\"kind\":3}",
      "{\"kind\":\"step\",\"step\":3}",
      "{\"kind\":\"step\",\"step\":3,\"step_seconds\":1.0}",
      "{\"kind\":\"step\",\"step\":3,\"step_seconds\":-1.0,\"elapsed_seconds\":50.0}",
      "{\"kind\":\"step\",\"step\":3,\"step_seconds\":1.0,\"elapsed_seconds\":\"inf\"}",
      "{\"kind\":\"step\",\"step\":\"3\",\"step_seconds\":1.0,\"elapsed_seconds\":50.0}",
      "{\"kind\":\"step\",\"step\":3,\"step_seconds\":1e999,\"elapsed_seconds\":50.0}",
      "{\"kind\":\"end\"}",
      "\xff\xfe"};
  for (const char* line : damage) file.add(line);
  file.add("");
  file.add("{\"kind\":\"checkpoint\",\"step\":3}");
  file.add("{\"kind\":\"of tomorrow\"}");
  file.add("{\"kind\":\"step\",\"step\":-4,\"step_seconds\":1.0,\"elapsed_seconds\":12.0}");
  const RunTime time = read_run_time(file.path, 9);
  EXPECT_EQ(time.damaged_lines, static_cast<int64_t>(std::size(damage)));
  EXPECT_EQ(time.productive_seconds, whole.productive_seconds);
  EXPECT_EQ(time.total_seconds, whole.total_seconds);
  EXPECT_EQ(time.attempts, 1);
}

}  // namespace
}  // namespace espalier
