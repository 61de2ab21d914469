// SPDX-License-Identifier: Apache-2.0
// What the user sees while a run goes on: one bar that is redrawn on a terminal, plain lines in a
// batch log. Says nothing on ranks that do not speak (core/log).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>

#include "monitor/metrics.hpp"
#include "monitor/progress_text.hpp"

namespace espalier {

/// automatic: a bar if the output is a terminal, else lines. The deck's monitor.progress.
enum class ProgressStyle { automatic, bar, lines };

/// Estimates the time left: steps left times (median of the last step seconds + mean time spent
/// between steps, on validation and checkpoints). The first step of a run, which pays for
/// allocations and page faults, does not count.
class TimeLeft {
 public:
  explicit TimeLeft(int64_t total_steps) : total_steps_(total_steps) {}

  /// now_s: any monotonic clock, seconds.
  void add(int64_t step, double step_seconds, double now_s);
  std::optional<double> seconds() const;  ///< none before the second step of the run

 private:
  static constexpr size_t kWindow = 64;
  int64_t total_steps_;
  int64_t step_ = 0;
  int64_t counted_ = -1;  // the first step is number 0
  double first_end_s_ = 0.0, now_s_ = 0.0, inside_s_ = 0.0;
  std::deque<double> recent_;
};

/// One per process, made when training starts.
///
/// As long as a bar may stand on the terminal, other lines go through print(), or after clear().
/// The destructor leaves the cursor at the start of a fresh line, also when an error passes.
class ProgressDisplay {
 public:
  /// first_step: the step that this run does first (for a resumed run greater than 1).
  /// log_interval: steps from one plain line to the next; the first and the last step always have
  /// one, and so has a step with a validation loss.
  ProgressDisplay(int64_t total_steps, ProgressStyle style, int64_t first_step = 1,
                  int64_t log_interval = 1, std::FILE* out = stdout);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// After each step. validation_loss: if one was measured after this step.
  void update(const StepMetrics& m, std::optional<double> validation_loss = std::nullopt);

  void print(const std::string& line);  ///< a line of its own, above the bar
  void clear();                         ///< takes the bar away until the next update
  void finish();                        ///< leaves the last bar standing and ends its line

  bool draws_bar() const { return bar_; }

 private:
  void draw();
  void put(const std::string& text);
  std::FILE* out_;
  bool bar_;
  bool ansi_;      // the terminal knows "erase line"
  int shown_ = 0;  // columns of the bar that stands there
  int64_t first_step_, log_interval_;
  TimeLeft time_left_;
  ProgressState state_;
  std::optional<double> last_validation_;
  std::chrono::steady_clock::time_point last_draw_{};
  Charset charset_;
};

}  // namespace espalier
