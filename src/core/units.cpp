// SPDX-License-Identifier: Apache-2.0
#include "core/units.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <ctime>

namespace espalier {
namespace {

template <size_t N>
std::string scaled(double value, double base, const std::array<const char*, N>& suffixes) {
  size_t i = 0;
  // What would be printed as the base itself belongs to the next suffix.
  while (std::abs(value) >= (i == 0 ? base : base - 0.005) && i + 1 < N) {
    value /= base;
    ++i;
  }
  if (i == 0 && value == std::floor(value)) return fmt::format("{:.0f}{}", value, suffixes[0]);
  return fmt::format("{:.2f}{}", value, suffixes[i]);
}

}  // namespace

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string format_bytes(double bytes) {
  return scaled(bytes, 1024.0,
                std::array<const char*, 6>{" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string format_count(double count) {
  return scaled(count, 1000.0, std::array<const char*, 5>{"", " K", " M", " B", " T"});
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0.0) || std::isinf(seconds)) return "-";
  // The limits stand where rounding reaches the next unit.
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.99995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {:02} min", s / 3600, (s / 60) % 60);
  return fmt::format("{} d {:02} h", s / 86400, (s / 3600) % 24);
}

}  // namespace espalier
