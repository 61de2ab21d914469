// SPDX-License-Identifier: Apache-2.0
// Files published by rename: whole or absent, with what to do in the message when it fails.
#include "core/durable_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "core/error.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

class DurableFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string form = (fs::temp_directory_path() / "espalier-durable-XXXXXX").string();
    ASSERT_NE(::mkdtemp(form.data()), nullptr);
    folder_ = form;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

/// Runs `action` in a process of its own; true if it returned true.
template <class Action>
bool in_child(const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(action() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(DurableFile, WritesReplacesAndReadsBack) {
  const std::string path = file("a.txt");
  write_text_file(path, "one\n");
  EXPECT_EQ(read_text_file(path, 100), "one\n");
  const std::string longer(300000, 'x');
  write_text_file(path, longer);
  EXPECT_EQ(read_text_file(path, 300000), longer);
  EXPECT_SAYS(message_of([&] { read_text_file(path, 299999); }), "299999");
  write_text_file(path, "");
  EXPECT_EQ(read_text_file(path, 0), "");
  EXPECT_FALSE(fs::exists(path + ".part"));
}

TEST_F(DurableFile, PublishesFilesAndFolders) {
  write_text_file(file("p"), "data");
  write_text_file(file("q"), "old");
  publish_file(file("p"), file("q"));
  EXPECT_EQ(read_text_file(file("q"), 10), "data");
  EXPECT_FALSE(fs::exists(file("p")));
  fs::create_directory(file("d1"));
  rename_durably(file("d1"), file("d2"));
  EXPECT_TRUE(fs::is_directory(file("d2")));
  EXPECT_SAYS(message_of([&] { rename_durably(file("d1"), file("d3")); }), "d1: cannot rename it");
  EXPECT_SAYS(message_of([&] { publish_file(file("no"), file("q")); }), "cannot open it");
  EXPECT_SAYS(message_of([&] { flush_folder(file("q")); }), "q: cannot open the folder");
  EXPECT_EQ(read_text_file(file("q"), 10), "data");
}

TEST_F(DurableFile, RefusesWhatIsNoFile) {
  EXPECT_SAYS(message_of([&] { read_text_file(file("no"), 10); }), "no such file");
  EXPECT_SAYS(message_of([&] { read_text_file(folder_, 10); }), "not a regular file");
  EXPECT_SAYS(message_of([&] { require_writable_place(file("no/x")); }), "does not exist");
  EXPECT_SAYS(message_of([&] { require_writable_place(folder_); }), "is a folder");
  EXPECT_EQ(message_of([&] { require_writable_place(file("x")); }), "");
}

TEST_F(DurableFile, AFullDiskLeavesTheOldFileAndNoRemains) {
  const std::string path = file("a.txt");
  write_text_file(path, "good");
  EXPECT_TRUE(in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};  // bytes that a file may have: as a disk that fills up
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const std::string text = message_of([&] { write_text_file(path, std::string(5000, 'x')); });
    return text.find("a.txt.part: cannot write it") != std::string::npos;
  }));
  EXPECT_EQ(read_text_file(path, 10), "good");
  EXPECT_FALSE(fs::exists(path + ".part"));
  EXPECT_SAYS(message_of([] { fail_file("f", "write it", ENOSPC); }), "free some space");
}

TEST_F(DurableFile, AFolderThatMayNotBeWrittenTo) {
  write_text_file(file("a"), "good");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  EXPECT_TRUE(in_child([&] {
    constexpr uid_t kNobody = 65534;  // for whom rights count, which they do not for root
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) return false;
    const std::string text = message_of([&] { write_text_file(file("a"), "new"); });
    return text.find("see to your rights") != std::string::npos;
  }));
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(read_text_file(file("a"), 10), "good");
}

}  // namespace
}  // namespace espalier
