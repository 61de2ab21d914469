// SPDX-License-Identifier: Apache-2.0
#include "core/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"

namespace espalier {

namespace {

enum class LockResult { held, taken, unsupported };

bool has_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

LockResult lock_by_fcntl(int fd) {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (::fcntl(fd, F_SETLK, &range) == 0) return LockResult::held;
  return errno == EACCES || errno == EAGAIN ? LockResult::taken : LockResult::unsupported;
}

LockResult lock(int fd, const std::string& path) {
  int result = 0;
  do {
    result = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return LockResult::held;
  if (errno == EWOULDBLOCK) return LockResult::taken;
  if (!has_no_locks(errno)) fail_file(path, "lock it", errno);
  return lock_by_fcntl(fd);
}

std::string holder_text() {
  char host[256] = "an unknown host";
  ::gethostname(host, sizeof(host) - 1);
  std::string text = fmt::format("process {} on {} since {}", ::getpid(), host, utc_now());
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID"})
    if (const char* const job = std::getenv(variable))
      text += fmt::format(", job {} ({})", job, variable);
  return text + "\n";
}

/// One line of printable characters; the file may be anything.
std::string read_holder(int fd) {
  char text[512];
  const ssize_t bytes = ::pread(fd, text, sizeof(text), 0);
  std::string holder;
  for (ssize_t i = 0; i < bytes && text[i] != '\n'; ++i)
    holder += text[i] >= 0x20 && text[i] < 0x7f ? text[i] : '?';
  return holder.empty() ? "a process that did not say who it is" : holder;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, const std::string& what,
                       const std::string& remedy) {
  const std::string path = folder + "/.lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_file(path, "create the lock of the folder", errno);
  try {
    const LockResult result = lock(descriptor_, path);
    if (result == LockResult::taken)
      throw LaunchError(fmt::format("{} {} is in use by {}; wait for it or end it, or {}", what,
                                    folder, read_holder(descriptor_), remedy));
    if (result == LockResult::unsupported)
      warn(
          "{}: this file system has no locks ({}); see to it yourself that no other job uses the "
          "folder",
          path, std::strerror(errno));
    const std::string text = holder_text();
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      fail_file(path, "write who holds it", errno);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

// The file stays: removed, it could be locked once more by its name while another process, which
// opened it before, holds the old one.
FolderLock::~FolderLock() {
  if (::ftruncate(descriptor_, 0) != 0) warn("cannot empty the lock file; nothing depends on it");
  ::close(descriptor_);
}

}  // namespace espalier
