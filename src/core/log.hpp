// SPDX-License-Identifier: Apache-2.0
// Messages for the user. Only one rank speaks (set_speaking), except for errors.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace espalier {

/// Whether this process prints info and warnings; rank 0 does. Default yes.
void set_speaking(bool speaks);
bool is_speaking();

void print_line(const std::string& text);  ///< stdout, flushed, only where speaking
void print_warning(
    const std::string& text);               ///< stderr with prefix "warning: ", only where speaking
void print_error(const std::string& text);  ///< stderr with prefix "error: ", always

template <class... Args>
void info(fmt::format_string<Args...> form, Args&&... args) {
  print_line(fmt::format(form, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> form, Args&&... args) {
  print_warning(fmt::format(form, std::forward<Args>(args)...));
}

}  // namespace espalier
