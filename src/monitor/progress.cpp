// SPDX-License-Identifier: Apache-2.0
// The terminal side of the progress display: width, redrawing, clearing.
#include "monitor/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/log.hpp"

namespace espalier {
namespace {

constexpr double kRedrawSeconds = 0.1;  // a quicker bar only costs time

bool is_terminal(std::FILE* out) {
  return isatty(fileno(out)) != 0;
}

/// One less than the terminal has, since a character in the last column wraps on some.
int usable_columns(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1;
  return 79;
}

bool knows_escapes() {
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Code points, which for what the bar is made of are columns.
int columns_of(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void TimeLeft::add(int64_t step, double step_seconds, double now_s) {
  step_ = step;
  now_s_ = now_s;
  if (++counted_ == 0) {
    first_end_s_ = now_s;
    return;
  }
  inside_s_ += step_seconds;
  recent_.push_back(step_seconds);
  if (recent_.size() > kWindow) recent_.pop_front();
}

std::optional<double> TimeLeft::seconds() const {
  if (counted_ < 1) return std::nullopt;
  std::vector<double> sorted(recent_.begin(), recent_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double between =
      std::max(0.0, now_s_ - first_end_s_ - inside_s_) / static_cast<double>(counted_);
  return static_cast<double>(std::max<int64_t>(total_steps_ - step_, 0)) * (*middle + between);
}

ProgressDisplay::ProgressDisplay(int64_t total_steps, ProgressStyle style, int64_t first_step,
                                 int64_t log_interval, std::FILE* out)
    : out_(out),
      bar_(style == ProgressStyle::bar || (style == ProgressStyle::automatic && is_terminal(out))),
      ansi_(knows_escapes()),
      first_step_(first_step),
      log_interval_(std::max<int64_t>(log_interval, 1)),
      time_left_(total_steps),
      charset_(charset_of_environment()) {
  state_.total_steps = total_steps;
}

ProgressDisplay::~ProgressDisplay() {
  finish();
}

void ProgressDisplay::update(const StepMetrics& m, std::optional<double> validation_loss) {
  if (!is_speaking()) return;
  double exposed = 0.0;
  for (const auto& [axis, c] : m.communication) exposed += c.exposed_seconds;
  const double per_step = m.step_seconds > 0 ? 1.0 / m.step_seconds : 0.0;
  time_left_.add(m.step, m.step_seconds, seconds_now());
  state_.step = m.step;
  state_.loss = m.loss;
  state_.validation_loss = validation_loss;
  state_.gradient_norm = m.gradient_norm;
  state_.learning_rate = m.learning_rate;
  state_.tokens_per_second = m.tokens_per_second;
  state_.mfu = m.mfu;
  state_.data_share = m.data_wait_seconds * per_step;
  state_.exposed_share = exposed * per_step;
  state_.seconds_left = time_left_.seconds();
  state_.skipped_at_scale = m.skipped ? std::optional(m.loss_scale) : std::nullopt;
  if (validation_loss) last_validation_ = validation_loss;

  const bool ends = m.step == first_step_ || m.step == state_.total_steps;
  const bool worth_a_line = validation_loss || m.skipped;  // also stays above a bar
  if (worth_a_line || (!bar_ && (ends || m.step % log_interval_ == 0)))
    print(progress_line(state_));
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_draw_;
  if (bar_ && (ends || worth_a_line || since.count() >= kRedrawSeconds)) draw();
}

void ProgressDisplay::print(const std::string& line) {
  if (!is_speaking()) return;
  const bool stood = shown_ > 0;
  clear();
  put(line + "\n");
  if (stood) draw();
}

void ProgressDisplay::draw() {
  state_.validation_loss = last_validation_;  // a bar shows the latest, a line only a new one
  const std::string text = progress_bar(state_, usable_columns(out_), charset_);
  const int columns = columns_of(text);
  const std::string rest(static_cast<size_t>(std::max(0, shown_ - columns)), ' ');
  put((ansi_ ? "\r\x1b[2K" + text : "\r" + text + rest));
  shown_ = ansi_ ? columns : std::max(columns, shown_);
  last_draw_ = std::chrono::steady_clock::now();
}

void ProgressDisplay::clear() {
  if (shown_ == 0) return;
  put(ansi_ ? std::string("\r\x1b[2K")
            : "\r" + std::string(static_cast<size_t>(shown_), ' ') + "\r");
  shown_ = 0;
}

void ProgressDisplay::finish() {
  if (shown_ == 0) return;
  draw();
  put("\n");
  shown_ = 0;
}

void ProgressDisplay::put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace espalier
