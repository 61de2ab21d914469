// SPDX-License-Identifier: Apache-2.0
// Error classes, the documented exit codes, and the always-on internal check.
// Rooms throw; only main decides how the process ends.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace espalier {

/// Exit codes of both programs; documented in docs/exit-codes.md.
enum class ExitCode : int {
  success = 0,
  internal = 1,   ///< broken invariant: a defect of the program
  deck = 2,       ///< faults in a deck or on the command line
  launch = 3,     ///< ranks, devices, folders, environment
  data = 4,       ///< files: missing, truncated, foreign, wrong checksum
  numerical = 5,  ///< a loss or gradient that is not finite
  requeue = 75,  ///< stopped in good order before the end: start it again (EX_TEMPFAIL of sysexits)
};

/// Base of every error that a user may see. Message form: what, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct DeckError : Error {
  explicit DeckError(const std::string& m) : Error(ExitCode::deck, m) {}
};
struct LaunchError : Error {
  explicit LaunchError(const std::string& m) : Error(ExitCode::launch, m) {}
};
/// Memory that is not there, on this rank alone.
struct MemoryError : LaunchError {
  using LaunchError::LaunchError;
};
struct DataError : Error {
  explicit DataError(const std::string& m) : Error(ExitCode::data, m) {}
};
struct NumericalError : Error {
  explicit NumericalError(const std::string& m) : Error(ExitCode::numerical, m) {}
};
struct InternalError : Error {
  explicit InternalError(const std::string& m) : Error(ExitCode::internal, m) {}
};

/// One line a fault, the first few dozen: a wrong deck would list hundreds.
inline std::string list_faults(const std::vector<std::string>& faults) {
  constexpr size_t kMostLines = 40;
  std::string text;
  for (size_t i = 0; i < faults.size() && i < kMostLines; ++i) text += "\n  " + faults[i];
  if (faults.size() > kMostLines)
    text += fmt::format("\n  and {} more", faults.size() - kMostLines);
  return text;
}

[[noreturn]] inline void fail_internal(const char* file, int line, const char* condition,
                                       const std::string& what) {
  throw InternalError(fmt::format("internal error at {}:{}: {} ({} is false); please report it",
                                  file, line, what, condition));
}

}  // namespace espalier

/// Host-side O(1) invariant, checked in every build. The remaining arguments are a fmt string.
#define ESPALIER_REQUIRE(condition, ...)                                                     \
  do {                                                                                       \
    if (!(condition))                                                                        \
      ::espalier::fail_internal(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (0)
