// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <atomic>
#include <cstdio>

namespace espalier {
namespace {
std::atomic<bool> speaking{true};

// One write a line, so that lines of several ranks do not mix.
void put(std::FILE* where, const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), where);
  std::fflush(where);
}
}  // namespace

void set_speaking(bool speaks) {
  speaking = speaks;
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
