// SPDX-License-Identifier: Apache-2.0
// Texts of the progress display.
#include "monitor/progress_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/units.hpp"

namespace espalier {
namespace {

constexpr int kLongestBar = 40;
constexpr int kShortestBar = 8;

std::string left_text(const ProgressState& s) {
  return "left " + (s.seconds_left ? format_duration(*s.seconds_left) : std::string("-"));
}

/// `cells` columns wide; done in [0, 1]. UTF-8 draws eighths of a cell.
std::string draw_bar(double done, int cells, Charset charset) {
  done = std::clamp(done, 0.0, 1.0);
  std::string out;
  if (charset == Charset::ascii) {
    const int full = static_cast<int>(std::floor(done * cells));
    return "[" + std::string(full, '#') + std::string(cells - full, '.') + "]";
  }
  static const char* const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int filled = static_cast<int>(std::floor(done * cells * 8));
  for (int i = 0; i < filled / 8; ++i) out += "█";
  out += eighths[filled % 8];
  const int used = filled / 8 + (filled % 8 != 0 ? 1 : 0);
  return "▕" + out + std::string(cells - used, ' ') + "▏";
}

}  // namespace

std::string format_rate(double tokens_per_second) {
  double x = tokens_per_second;
  if (!std::isfinite(x) || x < 0) return "- tok/s";
  const char* const suffixes[] = {"", "k", "M", "G"};
  int i = 0;
  // 999.5 and not 1000: what would round to four digits takes the next unit.
  while (x >= 999.5 && i < 3) {
    x /= 1000.0;
    ++i;
  }
  const int digits = x >= 99.95 || i == 0 ? 0 : x >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{} tok/s", x, digits, suffixes[i]);
}

std::string progress_line(const ProgressState& s) {
  std::string out = fmt::format("step {}/{}  loss {:.4f}", s.step, s.total_steps, s.loss);
  if (s.validation_loss) out += fmt::format("  val {:.4f}", *s.validation_loss);
  out += fmt::format("  norm {:.2f}  lr {:.1e}  {}", s.gradient_norm, s.learning_rate,
                     format_rate(s.tokens_per_second));
  if (s.mfu > 0) out += fmt::format("  MFU {:.1f}%", 100 * s.mfu);
  out += fmt::format("  data {:.1f}%  comm {:.1f}%", 100 * s.data_share, 100 * s.exposed_share);
  if (s.step < s.total_steps) out += "  " + left_text(s);
  if (s.skipped_at_scale)
    out += fmt::format("  skipped (gradient overflow at loss scale {:g})", *s.skipped_at_scale);
  return out;
}

std::string progress_bar(const ProgressState& s, int columns, Charset charset) {
  // The most important first; the last goes first when there is no room.
  std::vector<std::string> words = {fmt::format("{}/{}", s.step, s.total_steps),
                                    fmt::format("loss {:.4f}", s.loss)};
  if (s.step < s.total_steps) words.push_back(left_text(s));
  words.push_back(format_rate(s.tokens_per_second));
  if (s.validation_loss) words.push_back(fmt::format("val {:.4f}", *s.validation_loss));
  if (s.mfu > 0) words.push_back(fmt::format("MFU {:.1f}%", 100 * s.mfu));
  const auto width = [&] {  // of the words, all ASCII, with two blanks between
    size_t sum = 0;
    for (const auto& w : words) sum += w.size() + 2;
    return static_cast<int>(sum) - 2;
  };
  const int around = 4;  // the two ends of the bar and two blanks
  const auto bar_fits = [&] { return width() + around + kShortestBar <= columns; };
  while (words.size() > 3 && !bar_fits()) words.pop_back();
  const int cells = bar_fits() ? std::min(kLongestBar, columns - width() - around) : 0;
  while (words.size() > 1 && width() > columns) words.pop_back();
  std::string out;
  if (cells > 0) {
    const double total = static_cast<double>(std::max<int64_t>(s.total_steps, 1));
    out = draw_bar(static_cast<double>(s.step) / total, cells, charset) + "  ";
  }
  out += fmt::format("{}", fmt::join(words, "  "));
  if (cells == 0) out.resize(std::min(out.size(), static_cast<size_t>(std::max(columns, 0))));
  return out;
}

Charset charset_of_environment() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string v = value;
    std::transform(v.begin(), v.end(), v.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool utf8 = v.find("utf-8") != std::string::npos || v.find("utf8") != std::string::npos;
    return utf8 ? Charset::utf8 : Charset::ascii;
  }
  return Charset::ascii;
}

}  // namespace espalier
