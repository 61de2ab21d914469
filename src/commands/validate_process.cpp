// SPDX-License-Identifier: Apache-2.0
#include "commands/validate_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/clock.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

constexpr const char* kRanks = "{ranks}";
constexpr double kGraceSeconds = 10.0;

std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t')) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote != 0 && c == quote)
      quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == '\\' && quote != '\'' && i + 1 < text.size())
      words.back() += text[++i];
    else
      words.back() += c;
  }
  if (quote != 0)
    throw DeckError(fmt::format("--launcher: the quote {} in \"{}\" does not end", quote, text));
  return words;
}

bool is_in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

// The group that a signal to this process must end as well; 0: none.
volatile std::sig_atomic_t running_group = 0;

void end_group_and_self(int signal) {
  if (running_group > 0) ::kill(-static_cast<pid_t>(running_group), SIGTERM);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// Passes SIGINT, SIGTERM and SIGHUP on while it lives.
class SignalsToGroup {
 public:
  explicit SignalsToGroup(pid_t group) {
    running_group = static_cast<std::sig_atomic_t>(group);
    struct sigaction action = {};
    action.sa_handler = end_group_and_self;
    for (size_t i = 0; i < kCount; ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  }
  ~SignalsToGroup() {
    for (size_t i = 0; i < kCount; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    running_group = 0;
  }
  SignalsToGroup(const SignalsToGroup&) = delete;
  SignalsToGroup& operator=(const SignalsToGroup&) = delete;

 private:
  static constexpr size_t kCount = 3;
  static constexpr int kSignals[kCount] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[kCount];
};

// In the child: no allocation, no exception. The number of the error goes to `pipe`.
[[noreturn]] void become(char* const* argv, int log, int pipe) {
  ::setpgid(0, 0);
  const int empty = ::open("/dev/null", O_RDONLY);
  ::dup2(empty, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execvp(argv[0], argv);
  const int error = errno;
  if (::write(pipe, &error, sizeof error) < 0) ::_exit(126);
  ::_exit(127);
}

pid_t start(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    throw LaunchError(fmt::format("cannot write {} ({}); choose a --directory that can be written",
                                  log, std::strerror(errno)));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw LaunchError(fmt::format("no pipe to be had ({})", std::strerror(errno)));
  const pid_t child = ::fork();
  if (child == 0) become(argv.data(), file, ends[1]);
  const int fork_error = errno;
  ::close(file);
  ::close(ends[1]);
  int error = 0;
  const bool failed = child < 0 || ::read(ends[0], &error, sizeof error) == sizeof error;
  ::close(ends[0]);
  if (!failed) return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
  throw LaunchError(
      fmt::format("cannot start {} ({}); say how this site starts programs: --launcher \"mpiexec "
                  "-n {{ranks}}\"",
                  command[0], std::strerror(child < 0 ? fork_error : error)));
}

void nap() {
  const timespec time = {0, 20'000'000};
  ::nanosleep(&time, nullptr);
}

}  // namespace

Launcher::Launcher(const std::string& form) : form_(form), words_(shell_words(form)) {
  if (words_.empty() || form.find(kRanks) == std::string::npos)
    throw DeckError(
        fmt::format("--launcher: \"{}\" does not say where the number of ranks goes; write it as "
                    "{{ranks}}: \"mpiexec -n {{ranks}}\"",
                    form));
}

Launcher Launcher::of_site() {
  const char* const given = std::getenv("ESPALIER_LAUNCHER");
  if (given != nullptr && *given != '\0') return Launcher(given);
  if (std::getenv("SLURM_JOB_ID") != nullptr && is_in_path("srun"))
    return Launcher("srun -n {ranks}");
  if (is_in_path("mpiexec")) return Launcher("mpiexec -n {ranks}");
  throw LaunchError(
      "neither srun (in a Slurm job) nor mpiexec is to be found; name this site's launcher by "
      "--launcher \"PROGRAM -n {ranks}\" or in ESPALIER_LAUNCHER");
}

std::vector<std::string> Launcher::command(int64_t ranks,
                                           const std::vector<std::string>& program) const {
  std::vector<std::string> words = words_;
  for (std::string& word : words)
    for (size_t at = 0; (at = word.find(kRanks, at)) != std::string::npos;)
      word.replace(at, std::strlen(kRanks), std::to_string(ranks));
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

ProcessEnd run_process(const std::vector<std::string>& command, const std::string& log,
                       double timeout_s) {
  const double began = monotonic_seconds();
  const pid_t child = start(command, log);
  const SignalsToGroup signals(child);
  ProcessEnd end;
  int status = 0;
  double asked_to_stop = 0.0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    const double now = monotonic_seconds();
    if (!end.timed_out && now - began > timeout_s) {
      end.timed_out = true;
      asked_to_stop = now;
      ::kill(-child, SIGTERM);
    } else if (end.timed_out && now - asked_to_stop > kGraceSeconds) {
      ::kill(-child, SIGKILL);
    }
    nap();
  }
  if (end.timed_out) ::kill(-child, SIGKILL);  // what the launcher may have left behind
  end.seconds = monotonic_seconds() - began;
  end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return end;
}

std::string last_lines(const std::string& path, size_t count) {
  std::ifstream in(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    lines.push_back(line);
    if (lines.size() > count) lines.pop_front();
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace espalier
