// SPDX-License-Identifier: Apache-2.0
// The saver on several ranks: both modes write the same bytes, a running save holds back the next,
// and errors reach every rank.
#include "checkpoint/checkpoint_saver.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.hpp"
#include "shared_folder.hpp"
#include "state_problem.hpp"

namespace espalier {
namespace {

class CheckpointSaverTest {
 public:
  StateProblem problem;
  SharedFolder folder;
  CheckpointConfig config;

  std::string root() const { return folder.file("checkpoints"); }
  CheckpointSaver make() {
    return CheckpointSaver(root(), world(), config, problem.layout.tensors, StateTypes{},
                           test_session().allows_threads());
  }
  SaveRequest request(int64_t step, SaveMode mode) {
    SaveRequest r;
    r.slabs = share_of_slabs(problem.slabs, world().rank(), world().size());
    r.progress = problem.progress;
    r.history = problem.history;
    r.manifest.step = step;
    r.progress.step = step;
    for (auto* column : {&r.history.loss, &r.history.gradient_norm, &r.history.learning_rate,
                         &r.history.loss_scale})
      column->resize(static_cast<size_t>(step), 1.0);
    r.history.skipped.resize(static_cast<size_t>(step));
    r.history.tokens.resize(static_cast<size_t>(step));
    r.history.token_hash.resize(static_cast<size_t>(step));
    r.manifest.grid = {{"pp", 1}, {"dp", world().size()}, {"cp", 1}, {"tp", 1}};
    r.manifest.ranks = world().size();
    r.manifest.hosts = {"host"};
    r.manifest.deck = "[run]\n";
    r.manifest.build = "test";
    r.mode = mode;
    return r;
  }
  std::string bytes(int64_t step) const {
    std::ifstream file(root() + "/" + checkpoint_name(step) + "/state.h5", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    for (const CheckpointEntry& e : CheckpointStore(root()).list())
      if (e.is_whole()) found.push_back(e.step);
    return found;
  }
};

TEST(CheckpointSaver, BothModesWriteTheSameBytes) {
  CheckpointSaverTest t;
  t.config.read_back = true;
  CheckpointSaver saver = t.make();
  saver.save(t.request(5, SaveMode::synchronous));
  auto report = saver.finish();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->step, 5);
  EXPECT_EQ(report->stall_seconds, report->seconds);
  world().barrier();
  const std::string first = t.bytes(5);
  EXPECT_EQ(static_cast<int64_t>(first.size()), report->bytes);
  SaveRequest request = t.request(5, SaveMode::asynchronous);
  saver.save(request);
  // Training goes on: what changes now is not in the checkpoint.
  for (float& v : t.problem.values) v = 0.0f;
  report = saver.finish();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->mode, SaveMode::asynchronous);
  EXPECT_FALSE(saver.finish());
  world().barrier();
  EXPECT_EQ(t.bytes(5), first);
  EXPECT_TRUE(CheckpointStore(t.root()).find("5").is_verified);
  EXPECT_EQ(CheckpointStore(t.root()).latest(), checkpoint_name(5));
  const int64_t own = slab_bytes(request.slabs);
  EXPECT_EQ(saver.snapshot_bytes(), own);
}

TEST(CheckpointSaver, RetentionFollowsTheDeck) {
  CheckpointSaverTest t;
  t.config.keep_last = 2;
  t.config.keep_every = 10;
  CheckpointSaver saver = t.make();
  for (int64_t step = 5; step <= 25; step += 5) {
    saver.save(t.request(step, SaveMode::asynchronous));
    if (step % 2 == 0) saver.finish();  // the others wait in the next save
  }
  saver.finish();
  world().barrier();
  EXPECT_EQ(t.steps(), (std::vector<int64_t>{25, 20, 10}));
}

TEST(CheckpointSaver, FailuresReachEveryRank) {
  CheckpointSaverTest t;
  if (world().rank() == 0) std::ofstream(t.root()) << "a file where the folder should be";
  world().barrier();
  for (const SaveMode mode : {SaveMode::synchronous, SaveMode::asynchronous}) {
    CheckpointSaver saver = t.make();
    const auto attempt = [&] {
      saver.save(t.request(5, mode));
      saver.finish();
    };
    EXPECT_THROW(attempt(), DataError);
    EXPECT_FALSE(saver.is_running());
    EXPECT_FALSE(saver.finish());
  }
}

}  // namespace
}  // namespace espalier
