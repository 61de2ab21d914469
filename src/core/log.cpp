// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <atomic>
#include <cstdio>

#include "core/output.hpp"

namespace espalier {
namespace {
std::atomic<bool> speaking{true};
std::atomic<bool> output_failed{false};

// One write a line, so that lines of several ranks do not mix.
void put(std::FILE* where, const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), where) == line.size();
  if ((!written || std::fflush(where) != 0) && where == stdout) output_failed = true;
}
}  // namespace

void set_speaking(bool speaks) {
  speaking = speaks;
}
bool has_output_failed() {
  return output_failed;
}
bool is_speaking() {
  return speaking;
}

void print_line(const std::string& text) {
  if (speaking) put(stdout, text + "\n");
}
void print_warning(const std::string& text) {
  if (speaking) put(stderr, "warning: " + text + "\n");
}
void print_error(const std::string& text) {
  put(stderr, "error: " + text + "\n");
}

}  // namespace espalier
