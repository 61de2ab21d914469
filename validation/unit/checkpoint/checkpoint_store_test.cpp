// SPDX-License-Identifier: Apache-2.0
// The folder of checkpoints: publishing, damage, retention, and a process killed before each of the
// steps.
#include "checkpoint/checkpoint_store.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "sample_manifest.hpp"
#include "scratch_folder.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

/// Saves one whole checkpoint; `mark` is what its second state file begins with.
void save(CheckpointStore& store, int64_t step, char mark = 'x', bool is_healthy = true) {
  const std::string folder = store.begin(step);
  write_bytes(folder + "/state.0of2.h5", "01234");
  write_bytes(folder + "/state.1of2.h5", mark + std::string("123456"));
  CheckpointManifest m = sample_manifest(step);
  m.is_healthy = is_healthy;
  store.publish(step, m);
}

std::vector<int64_t> steps_of(const CheckpointStore& store) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : store.list()) steps.push_back(entry.step);
  return steps;
}

/// Names in the root that begin with a dot: what a save has under way or left behind.
std::vector<std::string> remains_in(const std::string& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root))
    if (const std::string name = entry.path().filename(); name[0] == '.') names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

class Store : public ::testing::Test {
 protected:
  ScratchFolder scratch_;
  std::string root_ = scratch_.file("run/checkpoints");
  CheckpointStore store_{root_};
};

TEST_F(Store, NamesHaveTenDigitsOrMore) {
  EXPECT_EQ(checkpoint_name(10), "step-0000000010");
  EXPECT_EQ(checkpoint_name(123456789012), "step-123456789012");
}

TEST_F(Store, NothingIsMadeBeforeTheFirstSave) {
  EXPECT_TRUE(store_.list().empty());
  EXPECT_EQ(store_.latest(), "");
  store_.clean();
  EXPECT_TRUE(store_.prune({}, PruneMode::remove).empty());
  EXPECT_FALSE(fs::exists(root_));
  EXPECT_SAYS(message_of<DataError>([&] { store_.find("auto"); }), "it holds no checkpoint");
}

TEST_F(Store, PublishesAndFinds) {
  const std::string part = store_.begin(10);
  EXPECT_EQ(part, root_ + "/.step-0000000010.part");
  EXPECT_TRUE(store_.list().empty());
  save(store_, 10);
  save(store_, 123456789012);
  save(store_, 20);
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{123456789012, 20, 10}));
  EXPECT_EQ(store_.latest(), "step-0000000020");
  EXPECT_TRUE(remains_in(root_).empty());
  const CheckpointEntry entry = store_.find("10");
  EXPECT_TRUE(entry.is_whole());
  EXPECT_EQ(entry.path, root_ + "/step-0000000010");
  EXPECT_EQ(entry.manifest.deck, sample_manifest(10).deck);
  EXPECT_EQ(store_.find("step-0000000020").step, 20);
  EXPECT_EQ(store_.find("auto").step, 123456789012);
  EXPECT_SAYS(message_of<DataError>([&] { store_.find("30"); }), "step-0000000010");
  EXPECT_SAYS(message_of<DataError>([&] { store_.find("../20"); }), "there is no checkpoint ../20");
}

TEST_F(Store, ForeignNamesAreLeftAlone) {
  save(store_, 10);
  for (const char* name : {"step-10", "step-00000000xx", "notes", ".step-0000000011", "step-"})
    fs::create_directory(root_ + "/" + name);
  store_.clean();
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{10}));
  EXPECT_TRUE(fs::exists(root_ + "/.step-0000000011"));
}

TEST_F(Store, ReplacesACheckpointOfTheSameStep) {
  save(store_, 10, 'a');
  save(store_, 10, 'b');
  EXPECT_EQ(file_bytes(root_ + "/step-0000000010/state.1of2.h5")[0], 'b');
  EXPECT_TRUE(remains_in(root_).empty());
}

TEST_F(Store, NamesTheDamage) {
  for (int64_t step = 1; step <= 7; ++step) save(store_, step);
  const auto path = [&](int64_t step, const char* name) {
    return root_ + "/" + checkpoint_name(step) + "/" + name;
  };
  fs::remove(path(1, "manifest.json"));
  fs::remove(path(2, "state.1of2.h5"));
  write_bytes(path(3, "state.0of2.h5"), "0123");
  write_bytes(path(4, "manifest.json"), file_bytes(path(5, "manifest.json")));
  write_bytes(path(6, "manifest.json"), "{}");
  fs::remove(path(7, "state.0of2.h5"));
  fs::create_directory(path(7, "state.0of2.h5"));
  EXPECT_SAYS(store_.find("1").fault, "manifest.json is missing");
  EXPECT_SAYS(store_.find("2").fault, "state.1of2.h5 is missing");
  EXPECT_SAYS(store_.find("3").fault, "state.0of2.h5 has 4 bytes instead of 5");
  EXPECT_SAYS(store_.find("4").fault, "is of step 5");
  EXPECT_SAYS(store_.find("6").fault, "checksum");
  EXPECT_SAYS(store_.find("7").fault, "not a regular file");
  EXPECT_EQ(store_.find("auto").step, 5);
  store_.clean();
  EXPECT_EQ(store_.latest(), "step-0000000005");
  // Damaged ones older than a whole one go, newer ones stay.
  EXPECT_EQ(store_.prune({}, PruneMode::remove).size(), 4u);
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{7, 6, 5}));
}

TEST_F(Store, APublishWhoseFilesAreNotThereChangesNothing) {
  save(store_, 10);
  const std::string folder = store_.begin(20);
  write_bytes(folder + "/state.0of2.h5", "01234");
  EXPECT_SAYS(message_of<DataError>([&] { store_.publish(20, sample_manifest(20)); }),
              "state.1of2.h5 is missing; the checkpoint is not published");
  EXPECT_EQ(store_.latest(), "step-0000000010");
  store_.abandon(20);
  EXPECT_TRUE(remains_in(root_).empty());
}

TEST_F(Store, KeepsTheNewestAndTheMultiples) {
  for (int64_t step = 10; step <= 100; step += 10) save(store_, step);
  EXPECT_EQ(store_.prune({2, 30}, PruneMode::dry_run).size(), 6u);
  EXPECT_EQ(steps_of(store_).size(), 10u);
  const std::vector<std::string> removed = store_.prune({2, 30}, PruneMode::remove);
  EXPECT_EQ(removed.front(), "step-0000000010");
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{100, 90, 60, 30}));
  EXPECT_TRUE(remains_in(root_).empty());
  store_.prune({0, 0}, PruneMode::remove);  // never the last one
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{100}));
}

TEST_F(Store, NeverRemovesTheLastThatWasVerifiedAndHealthy) {
  for (int64_t step = 10; step <= 50; step += 10) save(store_, step, 'x', step < 40);
  store_.mark_verified(10);
  store_.mark_verified(20);
  store_.mark_verified(50);  // intact, but its loss was not finite
  store_.prune({1, 0}, PruneMode::remove);
  // 50 the newest, 30 the newest healthy one, 20 the newest verified and healthy one.
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{50, 30, 20}));
  store_.mark_verified(30);
  store_.prune({1, 0}, PruneMode::remove);
  EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{50, 30}));
}

TEST_F(Store, AVerifiedMarkBelongsToItsManifest) {
  save(store_, 10, 'a');
  EXPECT_FALSE(store_.find("10").is_verified);
  store_.mark_verified(10);
  EXPECT_TRUE(store_.find("10").is_verified);
  const std::string manifest = root_ + "/step-0000000010/manifest.json";
  CheckpointManifest m = sample_manifest(10);
  m.loss = 2.0;
  write_bytes(manifest, manifest_json(m));
  EXPECT_FALSE(store_.find("10").is_verified);
  store_.mark_verified(10);
  save(store_, 10, 'b');
  EXPECT_FALSE(store_.find("10").is_verified);
}

TEST_F(Store, BringsBackAnOldOneWhoseSuccessorIsDamaged) {
  save(store_, 10, 'a');
  const std::string path = root_ + "/step-0000000010", old = root_ + "/.step-0000000010.old";
  fs::copy(path, old, fs::copy_options::recursive);
  fs::remove(path + "/manifest.json");
  store_.clean();
  EXPECT_TRUE(store_.find("10").is_whole());
  EXPECT_TRUE(remains_in(root_).empty());
}

/// The process that is killed: saves step 20 into the root that the environment names.
TEST(StoreChild, Saves) {
  const char* const root = std::getenv("ESPALIER_STORE_ROOT");
  if (root == nullptr) GTEST_SKIP() << "only as a child of Store.SurvivesAKill";
  CheckpointStore store(root);
  save(store, 20, 'n');
  store.prune({1, 0}, PruneMode::remove);
}

int run_child(const std::string& root, const std::string& variable) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command = "ESPALIER_STORE_ROOT='" + root + "' " + variable + " exec '" + self +
                              "' --gtest_filter=StoreChild.Saves > /dev/null 2>&1";
  return std::system(command.c_str());
}

TEST_F(Store, SurvivesAKillBeforeEachStep) {
  struct Case {
    const char* phase;
    int64_t newest;  // after clean
  };
  for (const bool replaces : {false, true})
    for (const Case c : {Case{"save.begin", 10}, Case{"save.manifest", 10}, Case{"save.rename", 10},
                         Case{"save.latest", 20}, Case{"save.retention", 20}}) {
      fs::remove_all(root_);
      save(store_, 10);
      if (replaces) save(store_, 20, 'o');
      const int status = run_child(root_, fmt::format("ESPALIER_TEST_KILL={}:0", c.phase));
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << c.phase;
      const CheckpointEntry before = store_.find("auto");
      EXPECT_EQ(before.step, replaces ? 20 : c.newest) << c.phase;
      store_.clean();
      EXPECT_TRUE(remains_in(root_).empty()) << c.phase;
      const CheckpointEntry entry = store_.find("auto");
      EXPECT_EQ(entry.step, replaces ? 20 : c.newest) << c.phase;
      EXPECT_EQ(store_.latest(), checkpoint_name(entry.step)) << c.phase;
      if (entry.step == 20) {
        EXPECT_EQ(file_bytes(entry.path + "/state.1of2.h5")[0], c.newest == 20 ? 'n' : 'o');
      }
      ASSERT_EQ(run_child(root_, ""), 0);  // and the next attempt goes through
      EXPECT_EQ(steps_of(store_), (std::vector<int64_t>{20}));
    }
}

TEST_F(Store, SurvivesAKillWhileTheOldOneStandsAside) {
  save(store_, 10);
  save(store_, 20, 'o');
  const int status = run_child(root_, "ESPALIER_TEST_KILL=save.swap:0");
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(remains_in(root_),
            (std::vector<std::string>{".step-0000000020.old", ".step-0000000020.part"}));
  store_.clean();
  EXPECT_TRUE(remains_in(root_).empty());
  EXPECT_EQ(file_bytes(store_.find("auto").path + "/state.1of2.h5")[0], 'o');
}

TEST_F(Store, AFailureAtAnyStepLeavesThePreviousOne) {
  for (const char* phase : {"save.begin", "save.manifest", "save.rename"}) {
    fs::remove_all(root_);
    save(store_, 10);
    EXPECT_NE(run_child(root_, fmt::format("ESPALIER_TEST_FAIL={}:0", phase)), 0);
    EXPECT_EQ(store_.find("auto").step, 10);
    EXPECT_EQ(store_.latest(), "step-0000000010");
  }
}

}  // namespace
}  // namespace espalier
