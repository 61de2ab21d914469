// SPDX-License-Identifier: Apache-2.0
// Two processes at one run folder; a holder that is killed.
#include "core/folder_lock.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>

#include "core/durable_file.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhat = "the run folder";
constexpr const char* kRemedy = "choose another run.directory";

class FolderLockTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string form = (fs::temp_directory_path() / "espalier-lock-XXXXXX").string();
    ASSERT_NE(::mkdtemp(form.data()), nullptr);
    folder_ = form;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string refusal() const {
    try {
      const FolderLock lock(folder_, kWhat, kRemedy);
    } catch (const LaunchError& e) {
      return e.what();
    }
    return "";
  }

  std::string folder_;
};

/// A process that holds the lock until it is told, or killed.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    int ready[2];
    if (::pipe(ready) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::setenv("SLURM_JOB_ID", "4711", 1);
      const FolderLock lock(folder, kWhat, kRemedy);
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) throw std::runtime_error("no holder");
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() { kill_it(); }
  pid_t process() const { return process_; }
  void kill_it() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

TEST_F(FolderLockTest, TheSecondIsRefusedAndToldWhoTheFirstIs) {
  const Holder holder(folder_);
  const std::string message = refusal();
  EXPECT_NE(message.find(fmt::format("process {} on ", holder.process())), std::string::npos)
      << message;
  EXPECT_NE(message.find("job 4711 (SLURM_JOB_ID)"), std::string::npos) << message;
  EXPECT_NE(message.find("choose another run.directory"), std::string::npos) << message;
}

TEST_F(FolderLockTest, AKilledHolderLeavesNoLock) {
  Holder holder(folder_);
  EXPECT_NE(refusal(), "");
  holder.kill_it();
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, IsFreeAgainWhenItGoesOutOfScope) {
  auto lock = std::make_unique<FolderLock>(folder_, kWhat, kRemedy);
  EXPECT_NE(refusal(), "");
  EXPECT_NE(read_text_file(folder_ + "/.lock", 4096), "");
  lock.reset();
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(read_text_file(folder_ + "/.lock", 4096), "");
}

TEST_F(FolderLockTest, AForeignLockFileIsTakenOver) {
  write_text_file(folder_ + "/.lock", std::string("\x01\x02 someone long gone\n", 20));
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, AFolderThatIsNotThere) {
  EXPECT_THROW(FolderLock(folder_ + "/no", kWhat, kRemedy), DataError);
}

}  // namespace
}  // namespace espalier
