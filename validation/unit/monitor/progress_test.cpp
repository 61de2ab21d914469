// SPDX-License-Identifier: Apache-2.0
// The progress display: exact lines, bars that never wrap, the time left.
#include "monitor/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/log.hpp"

namespace espalier {
namespace {

ProgressState some_state() {
  ProgressState s;
  s.step = 120;
  s.total_steps = 1000;
  s.loss = 2.1234;
  s.validation_loss = 2.3;
  s.gradient_norm = 0.81;
  s.learning_rate = 3e-4;
  s.tokens_per_second = 12345;
  s.mfu = 0.612;
  s.data_share = 0.001;
  s.exposed_share = 0.008;
  s.seconds_left = 200;
  return s;
}

StepMetrics step_metrics(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  m.gradient_norm = 0.5;
  m.learning_rate = 1e-3;
  m.step_seconds = 100.0;  // far more than the test takes, so that the clock does not enter
  m.tokens_per_second = 640;
  m.data_wait_seconds = 1.0;
  m.communication["dp"] = {8, 1, 5.0, 2.0};
  m.communication["tp"] = {8, 1, 5.0, 1.0};
  return m;
}

int columns_of(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// What a display writes.
class Written {
 public:
  Written() : file_(std::tmpfile()) {}
  ~Written() { std::fclose(file_); }
  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    std::rewind(file_);
    std::string out;
    for (int c; (c = std::fgetc(file_)) != EOF;) out += static_cast<char>(c);
    return out;
  }

 private:
  std::FILE* file_;
};

TEST(Progress, PlainLine) {
  EXPECT_EQ(progress_line(some_state()),
            "step 120/1000  loss 2.1234  val 2.3000  norm 0.81  lr 3.0e-04  12.3k tok/s  "
            "MFU 61.2%  data 0.1%  comm 0.8%  left 3 min 20 s");
}

TEST(Progress, PlainLineWithoutWhatIsNotKnown) {
  ProgressState s = some_state();
  s.validation_loss.reset();
  s.mfu = 0;
  s.seconds_left.reset();
  s.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(progress_line(s),
            "step 120/1000  loss nan  norm 0.81  lr 3.0e-04  12.3k tok/s  data 0.1%  comm 0.8%  "
            "left -");
  s.step = 1000;
  s.skipped_at_scale = 32768;
  EXPECT_EQ(progress_line(s),
            "step 1000/1000  loss nan  norm 0.81  lr 3.0e-04  12.3k tok/s  data 0.1%  comm 0.8%  "
            "skipped (gradient overflow at loss scale 32768)");
}

TEST(Progress, RatesHaveThreeDigits) {
  EXPECT_EQ(format_rate(0), "0 tok/s");
  EXPECT_EQ(format_rate(987.4), "987 tok/s");
  EXPECT_EQ(format_rate(999.6), "1.00k tok/s");
  EXPECT_EQ(format_rate(1234), "1.23k tok/s");
  EXPECT_EQ(format_rate(9996), "10.0k tok/s");
  EXPECT_EQ(format_rate(99960), "100k tok/s");
  EXPECT_EQ(format_rate(999600), "1.00M tok/s");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::infinity()), "- tok/s");
}

TEST(Progress, BarNeverExceedsTheTerminal) {
  ProgressState s = some_state();
  for (const Charset charset : {Charset::ascii, Charset::utf8})
    for (const int64_t step : {1, 7, 500, 999, 1000, 123456789})
      for (int columns = 0; columns <= 200; ++columns) {
        s.step = step;
        const std::string bar = progress_bar(s, columns, charset);
        EXPECT_LE(columns_of(bar), columns) << bar;
        EXPECT_EQ(bar.find('\n'), std::string::npos);
      }
}

TEST(Progress, BarTexts) {
  ProgressState s = some_state();
  s.step = 500;
  EXPECT_EQ(progress_bar(s, 200, Charset::ascii),
            "[####################....................]  500/1000  loss 2.1234  left 3 min 20 s  "
            "12.3k tok/s  val 2.3000  MFU 61.2%");
  EXPECT_EQ(progress_bar(s, 60, Charset::ascii),
            "[#########.........]  500/1000  loss 2.1234  left 3 min 20 s");
  EXPECT_EQ(progress_bar(s, 30, Charset::ascii), "500/1000  loss 2.1234");
  EXPECT_EQ(progress_bar(s, 4, Charset::ascii), "500/");
  s.step = 1000;
  const std::string full = progress_bar(s, 60, Charset::utf8);
  EXPECT_EQ(full.find(' '), full.find("  1000/1000")) << full;  // no blank cell is left
}

TEST(Progress, CharacterSetOfTheEnvironment) {
  const auto with = [](const char* all, const char* ctype, const char* lang) {
    setenv("LC_ALL", all, 1);
    setenv("LC_CTYPE", ctype, 1);
    setenv("LANG", lang, 1);
    return charset_of_environment();
  };
  EXPECT_EQ(with("", "", ""), Charset::ascii);
  EXPECT_EQ(with("", "", "de_DE.UTF-8"), Charset::utf8);
  EXPECT_EQ(with("", "C.utf8", "C"), Charset::utf8);
  EXPECT_EQ(with("C", "", "en_US.UTF-8"), Charset::ascii);
}

TEST(Progress, TimeLeftIgnoresTheFirstStepAndOutliers) {
  TimeLeft left(100);
  double now = 50.0;
  left.add(1, 50.0, now);  // a slow first step
  EXPECT_FALSE(left.seconds().has_value());
  for (int64_t step = 2; step <= 10; ++step) {
    const double seconds = step == 5 ? 30.0 : 2.0;
    now += seconds;
    left.add(step, seconds, now);
  }
  EXPECT_DOUBLE_EQ(*left.seconds(), 90 * 2.0);
}

TEST(Progress, TimeLeftCountsWhatHappensBetweenSteps) {
  TimeLeft left(100);
  double now = 0.0;
  left.add(1, 2.0, now);
  for (int64_t step = 2; step <= 11; ++step) {
    now += 2.0 + (step % 5 == 0 ? 5.0 : 0.0);  // validation every 5 steps, 5 s
    left.add(step, 2.0, now);
  }
  EXPECT_DOUBLE_EQ(*left.seconds(), 89 * (2.0 + 1.0));
}

TEST(Progress, LinesAtTheInterval) {
  Written written;
  {
    ProgressDisplay display(8, ProgressStyle::automatic, 1, 3, written.file());
    EXPECT_FALSE(display.draws_bar());
    for (int64_t step = 1; step <= 8; ++step)
      display.update(step_metrics(step), step == 4 ? std::optional(2.25) : std::nullopt);
  }
  const std::string rest = "  norm 0.50  lr 1.0e-03  640 tok/s  data 1.0%  comm 3.0%";
  EXPECT_EQ(written.text(), "step 1/8  loss 2.5000" + rest + "  left -\n" +
                                "step 3/8  loss 2.5000" + rest + "  left 8 min 20 s\n" +
                                "step 4/8  loss 2.5000  val 2.2500" + rest + "  left 6 min 40 s\n" +
                                "step 6/8  loss 2.5000" + rest + "  left 3 min 20 s\n" +
                                "step 8/8  loss 2.5000" + rest + "\n");
}

TEST(Progress, BarIsClearedBeforeALineAndEnded) {
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C", 1);
  Written written;
  {
    ProgressDisplay display(2, ProgressStyle::bar, 1, 1, written.file());
    EXPECT_TRUE(display.draws_bar());
    display.update(step_metrics(1));
    display.print("a line");
    display.update(step_metrics(2));
  }
  const std::string erase = "\r\x1b[2K";
  const std::string text = written.text();
  EXPECT_EQ(text.find("[####"), erase.size());
  EXPECT_NE(text.find(erase + "a line\n" + erase + "[####"), std::string::npos) << text;
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  for (size_t at = 0, next; (next = text.find('\r', at)) != std::string::npos; at = next + 1)
    EXPECT_LE(next - at, 79u + erase.size());
}

TEST(Progress, BarWithoutEscapesIsOverwrittenByBlanks) {
  setenv("TERM", "dumb", 1);
  setenv("LC_ALL", "C", 1);
  Written written;
  ProgressDisplay display(2, ProgressStyle::bar, 1, 1, written.file());
  display.update(step_metrics(1));
  display.clear();
  const std::string text = written.text();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const size_t second = text.find('\r', 1);
  ASSERT_NE(second, std::string::npos);
  const std::string bar = text.substr(1, second - 1);
  EXPECT_EQ(text, "\r" + bar + "\r" + std::string(bar.size(), ' ') + "\r");
}

TEST(Progress, SilentRanksWriteNothing) {
  set_speaking(false);
  Written written;
  {
    ProgressDisplay display(2, ProgressStyle::bar, 1, 1, written.file());
    display.update(step_metrics(1));
    display.print("a line");
  }
  set_speaking(true);
  EXPECT_EQ(written.text(), "");
}

}  // namespace
}  // namespace espalier
