// SPDX-License-Identifier: Apache-2.0
// Programs started by the site's launcher, one at a time, each with a log and a limit of time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

/// The words of a launcher such as "mpiexec -n {ranks}". Quotes and backslashes are as in a shell;
/// nothing else is special.
/// Errors  DeckError for a template without {ranks}, or with a quote that does not end
class Launcher {
 public:
  explicit Launcher(const std::string& form);
  /// ESPALIER_LAUNCHER; else "srun -n {ranks}" inside a Slurm job; else "mpiexec -n {ranks}".
  /// Errors  LaunchError if none of these programs is there
  static Launcher of_site();

  std::vector<std::string> command(int64_t ranks, const std::vector<std::string>& program) const;
  const std::string& form() const { return form_; }

 private:
  std::string form_;
  std::vector<std::string> words_;
};

struct ProcessEnd {
  int exit_code = 0;  // 128 + signal where one ended it
  bool timed_out = false;
  double seconds = 0.0;
};

/// Runs `command` in a process group of its own with standard input empty and both outputs in the
/// file `log`. After `timeout_s` seconds the group gets SIGTERM, and SIGKILL 10 s later. A signal
/// that ends this process ends the group first.
/// Errors  LaunchError if the program cannot be started or the log not be written
ProcessEnd run_process(const std::vector<std::string>& command, const std::string& log,
                       double timeout_s);

/// The last lines of a file that are not blank, joined by line feeds; empty where there is none.
std::string last_lines(const std::string& path, size_t count);

}  // namespace espalier
