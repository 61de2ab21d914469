// SPDX-License-Identifier: Apache-2.0
// The folder of a build: fresh, gone on with, whole, of another build, or somebody else's.
#include "build_files.hpp"
#include "core/durable_file.hpp"
#include "corpus/build/build_folder.hpp"
#include "corpus/store/store_manifest.hpp"

namespace espalier::testing {
namespace {

namespace fs = std::filesystem;

struct FolderTest : ::testing::Test {
  TempFolder temporary;
  CorpusConfig config =
      line_config(temporary.write("a.txt", "one\ntwo\nthree\n"), temporary.at("store"));
  BuildFolder folder{config.build.output};
  BuildPlan plan = make_build_plan(config, "bytes");

  BuildState take(bool may_replace = false) {
    return take_build_folder(folder, plan, may_replace).state;
  }
  std::string refusal(bool may_replace = false) {
    try {
      take(may_replace);
    } catch (const LaunchError& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  void expect_refusal(const std::string& text, bool may_replace = false) {
    const std::string said = refusal(may_replace);
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
};

TEST_F(FolderTest, FreshThenUnfinished) {
  EXPECT_EQ(take(), BuildState::fresh);
  EXPECT_TRUE(fs::is_directory(folder.raw() + "/validation"));
  EXPECT_EQ(take(), BuildState::unfinished);
  fs::remove_all(folder.raw());  // folders are made again
  EXPECT_EQ(take(), BuildState::unfinished);
  EXPECT_TRUE(fs::is_directory(folder.raw() + "/train"));
}

TEST_F(FolderTest, KilledBeforeThePlanIsFresh) {
  fs::create_directories(folder.work());
  write_text_file(folder.building() + "/.lock", "");
  write_text_file(folder.plan() + ".part", "{");
  EXPECT_EQ(take(), BuildState::fresh);
  EXPECT_FALSE(fs::exists(folder.plan() + ".part"));
}

TEST_F(FolderTest, PartsOfTheKilledGo) {
  take();
  write_text_file(folder.building() + "/train/lines-00000.tok.partial-77-0", "half");
  write_text_file(folder.keys(3) + ".part", "half");
  write_text_file(folder.record(3), "whole");
  EXPECT_EQ(take(), BuildState::unfinished);
  EXPECT_FALSE(fs::exists(folder.building() + "/train/lines-00000.tok.partial-77-0"));
  EXPECT_FALSE(fs::exists(folder.keys(3) + ".part"));
  EXPECT_TRUE(fs::exists(folder.record(3)));
}

TEST_F(FolderTest, AnotherBuildIsRefusedOrDiscarded) {
  take();
  write_text_file(folder.record(0), "old");
  plan.config.build.seed = 7;
  expect_refusal("the deck said seed = 1, and says seed = 7");
  EXPECT_TRUE(fs::exists(folder.record(0)));
  EXPECT_EQ(take(true), BuildState::fresh);
  EXPECT_FALSE(fs::exists(folder.record(0)));
  EXPECT_EQ(take(), BuildState::unfinished);
}

TEST_F(FolderTest, WhatNothingTellsOfIsRefused) {
  take();
  fs::remove(folder.plan());
  write_text_file(folder.record(0), "old");
  expect_refusal("nothing says what it is of");
}

TEST_F(FolderTest, ItIsLockedWhileItIsHeld) {
  const TakenFolder held = take_build_folder(folder, plan, false);
  expect_refusal("is in use by process");
  expect_refusal("is in use by process", true);
}

TEST_F(FolderTest, FoldersOfOthersStay) {
  for (const char* suffix : {"", ".building", ".replaced"}) {
    const std::string path = folder.output + suffix;
    fs::create_directories(path);
    write_text_file(path + "/letter", "mine");
    for (const bool may_replace : {false, true})
      EXPECT_NE(refusal(may_replace), "nothing was refused") << path;
    EXPECT_EQ(read_bytes(path + "/letter"), "mine");
    fs::remove_all(path);
  }
  write_text_file(folder.output, "a file");
  expect_refusal("is no folder");
}

TEST_F(FolderTest, StoresAreReplacedOnlyWhenAsked) {
  build_alone(config);
  const auto before = all_files(folder.output);
  expect_refusal("a token store is there already; choose another");
  EXPECT_EQ(all_files(folder.output), before);
  fs::copy(folder.output, folder.output + ".replaced", fs::copy_options::recursive);
  expect_refusal(".replaced is the one before it: remove it");
  config.build.seed = 5;
  config.build.held_out = 0.5;
  config.sources[0].name = "other";
  build_alone(config, true);
  EXPECT_NE(all_files(folder.output), before);
  EXPECT_FALSE(fs::exists(folder.output + ".replaced"));
  EXPECT_FALSE(fs::exists(folder.building()));
}

TEST_F(FolderTest, AWholeOneOnlyGetsItsName) {
  build_alone(config);
  const auto before = all_files(folder.output);
  fs::rename(folder.output, folder.building());  // killed before the rename
  EXPECT_EQ(take(), BuildState::whole);
  const BuildReport report = build_alone(config);
  EXPECT_EQ(report.pieces_found, report.pieces);
  EXPECT_EQ(all_files(folder.output), before);
  fs::rename(folder.output, folder.building());
  write_text_file(folder.building() + "/.lock", "");
  plan.config.clean.min_characters = 2;
  expect_refusal("it is whole, but of another deck or other files");
}

}  // namespace
}  // namespace espalier::testing
