// SPDX-License-Identifier: Apache-2.0
#include "commands/corpus_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/clock.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace espalier {

namespace {

constexpr double kBarSeconds = 0.2, kLineSeconds = 10.0;
constexpr int kBarWidth = 24;

const char* phase_text(BuildPhase phase) {
  switch (phase) {
    case BuildPhase::read: return "reading";
    case BuildPhase::find_duplicates: return "finding duplicates";
    case BuildPhase::drop_duplicates: return "dropping duplicates";
  }
  return "";
}

}  // namespace

std::string build_progress_text(const BuildProgress& p, int bar_width) {
  const double share =
      p.total > 0 ? std::min(1.0, static_cast<double>(p.done) / static_cast<double>(p.total)) : 1.0;
  std::string text = phase_text(p.phase);
  if (bar_width > 0) {
    const int full = static_cast<int>(share * bar_width);
    text += fmt::format(" [{:#<{}}{:-<{}}]", "", full, "", bar_width - full);
  }
  text += fmt::format(" {:.0f} %", 100.0 * share);
  if (p.phase != BuildPhase::read) return text;
  text += fmt::format(", {} of {}", format_bytes(static_cast<double>(p.done)),
                      format_bytes(static_cast<double>(p.total)));
  if (p.seconds > 0)
    text +=
        fmt::format(", {:.1f} MB/s of text", static_cast<double>(p.text_bytes) * 1e-6 / p.seconds);
  if (share > 0.005 && share < 1.0)
    text += fmt::format(", {} left", format_duration(p.seconds * (1.0 - share) / share));
  return text;
}

BuildDisplay::BuildDisplay() : is_terminal_(::isatty(STDOUT_FILENO) == 1) {}

BuildDisplay::~BuildDisplay() {
  clear();
}

void BuildDisplay::update(const BuildProgress& progress) {
  if (!is_speaking()) return;
  const double now = monotonic_seconds();
  if (!is_terminal_) {
    // The first line of a phase after a while: a short build needs none.
    if (last_ < 0.0) last_ = now;
    if (now - last_ < kLineSeconds) return;
    last_ = now;
    print_line(build_progress_text(progress, 0));
    return;
  }
  if (now - last_ < kBarSeconds && progress.phase == phase_) return;
  last_ = now;
  phase_ = progress.phase;
  const std::string text = build_progress_text(progress, kBarWidth);
  std::fprintf(stdout, "\r%-*s", static_cast<int>(shown_), text.c_str());
  std::fflush(stdout);
  shown_ = text.size();
}

void BuildDisplay::clear() {
  if (shown_ == 0) return;
  std::fprintf(stdout, "\r%*s\r", static_cast<int>(shown_), "");
  std::fflush(stdout);
  shown_ = 0;
}

}  // namespace espalier
