// SPDX-License-Identifier: Apache-2.0
// The launcher's words, and processes that end, fail, hang and do not exist.
#include "commands/validate_process.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "core/error.hpp"

namespace espalier {
namespace {

using Words = std::vector<std::string>;

TEST(ValidateProcess, FillsTheLauncher) {
  EXPECT_EQ(Launcher("mpiexec  -n {ranks}").command(4, {"a", "b c"}),
            (Words{"mpiexec", "-n", "4", "a", "b c"}));
  EXPECT_EQ(Launcher("srun --ntasks={ranks} 'one word' \"a \\\"b\\\"\" c\\ d").command(2, {}),
            (Words{"srun", "--ntasks=2", "one word", "a \"b\"", "c d"}));
  EXPECT_THROW(Launcher("mpiexec -n 4"), DeckError);
  EXPECT_THROW(Launcher(""), DeckError);
  EXPECT_THROW(Launcher("mpiexec 'n {ranks}"), DeckError);
}

TEST(ValidateProcess, TheEnvironmentNamesTheLauncherOfTheSite) {
  ::setenv("ESPALIER_LAUNCHER", "flux run -n {ranks}", 1);
  EXPECT_EQ(Launcher::of_site().form(), "flux run -n {ranks}");
  ::unsetenv("ESPALIER_LAUNCHER");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  EXPECT_THROW(Launcher::of_site(), LaunchError);
  ::setenv("PATH", path.c_str(), 1);
}

class ValidateProcessRun : public ::testing::Test {
 protected:
  ProcessEnd run(const std::string& script, double timeout_s = 30.0) {
    return run_process({"/bin/sh", "-c", script}, log_, timeout_s);
  }
  std::string log_ = ::testing::TempDir() + "validate_process.log";
};

TEST_F(ValidateProcessRun, KeepsTheLogAndTheExitCode) {
  const ProcessEnd end = run("echo one; echo; echo two >&2; cat; exit 7");  // cat: no input
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_FALSE(end.timed_out);
  EXPECT_EQ(last_lines(log_, 5), "one\ntwo");
  EXPECT_EQ(last_lines(log_, 1), "two");
  EXPECT_EQ(run("kill -9 $$").exit_code, 128 + SIGKILL);
  EXPECT_EQ(last_lines(log_, 5), "");
}

TEST_F(ValidateProcessRun, EndsWhatHangsWithItsChildren) {
  const std::string mark = ::testing::TempDir() + "validate_process.mark";
  std::remove(mark.c_str());
  const ProcessEnd end = run("(sleep 3; touch " + mark + ") & wait", 0.3);
  EXPECT_TRUE(end.timed_out);
  EXPECT_LT(end.seconds, 2.0);
  ASSERT_EQ(run("sleep 4").exit_code, 0);
  EXPECT_FALSE(std::ifstream(mark).good()) << "the child of the process lived on";
}

TEST_F(ValidateProcessRun, SaysWhatCannotBeStarted) {
  try {
    run_process({"no-such-launcher", "-n", "2"}, log_, 1.0);
    ADD_FAILURE();
  } catch (const LaunchError& error) {
    EXPECT_EQ(std::string(error.what()).find("cannot start no-such-launcher (No such file"), 0U)
        << error.what();
  }
  EXPECT_THROW(run_process({"/bin/true"}, "/no/such/folder/log", 1.0), LaunchError);
}

}  // namespace
}  // namespace espalier
