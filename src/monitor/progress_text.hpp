// SPDX-License-Identifier: Apache-2.0
// The texts of the progress display as pure functions: what a line or a bar says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace espalier {

/// What is known after a step. Shares are fractions of the step's time.
struct ProgressState {
  int64_t step = 0;
  int64_t total_steps = 0;
  double loss = 0.0;
  std::optional<double> validation_loss;
  double gradient_norm = 0.0;
  double learning_rate = 0.0;
  double tokens_per_second = 0.0;
  double mfu = 0.0;  ///< 0: unknown, not shown
  double data_share = 0.0;
  double exposed_share = 0.0;
  std::optional<double> seconds_left;      ///< none: not known yet
  std::optional<double> skipped_at_scale;  ///< fp16: the step was skipped at this loss scale
};

enum class Charset { ascii, utf8 };

/// "987 tok/s", "12.3k tok/s", "4.56M tok/s": three digits.
std::string format_rate(double tokens_per_second);

/// The plain line for a batch log, without line feed.
std::string progress_line(const ProgressState& s);

/// The bar for a terminal: at most `columns` wide. Where room is short, the bar shrinks, then words
/// go from the end down to step, loss and time left, then the bar, then the rest.
std::string progress_bar(const ProgressState& s, int columns, Charset charset);

/// The character set that the environment asks for: LC_ALL, else LC_CTYPE, else LANG.
Charset charset_of_environment();

}  // namespace espalier
