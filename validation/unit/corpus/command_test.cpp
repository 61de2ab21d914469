// SPDX-License-Identifier: Apache-2.0
// The corpus verb as users call it: output, files and exit codes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "commands/verbs.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::gzip;
using testing::random_text;
using testing::read_bytes;
using testing::TempFolder;

struct Outcome {
  int code = -1;
  std::string out, err;
};

/// Parses and runs as main does, exceptions of the action passed on.
Outcome run(std::vector<std::string> arguments) {
  CLI::App app("espalier");
  Action action;
  add_corpus(app, action);
  arguments.insert(arguments.begin(), "corpus");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector
  app.parse(std::move(arguments));
  Outcome outcome;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  try {
    outcome.code = action();
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    ::testing::internal::GetCapturedStderr();
    throw;
  }
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Command, BuildsInspectsAndShows) {
  const TempFolder folder;
  std::vector<std::string> arguments = {"build", "--out", folder.at("c"), "--held-out", "0.4"};
  for (uint64_t i = 0; i < 30; ++i) {
    arguments.push_back(folder.write(fmt::format("{}", i), random_text(i, 100)));
  }
  arguments.push_back(folder.write("empty", ""));
  arguments.push_back(folder.write("broken.gz", gzip("caf\xE9")));
  const Outcome build = run(arguments);
  EXPECT_EQ(build.code, 0);
  EXPECT_CONTAINS(build.out, "c.train.tok: ");
  EXPECT_CONTAINS(build.out, "c.validation.tok: ");
  EXPECT_CONTAINS(build.out, "MB/s");
  EXPECT_CONTAINS(build.out, "all 32 files");
  EXPECT_CONTAINS(build.out, "broken.gz (gzip)");
  EXPECT_CONTAINS(build.err, "1 of 32 files are empty");
  EXPECT_CONTAINS(build.err, "1 broken UTF-8 sequences in 1 files");

  const Outcome inspect = run({"inspect", folder.at("c.train.tok"), folder.at("c.validation.tok")});
  EXPECT_EQ(inspect.code, 0);
  EXPECT_CONTAINS(inspect.out, "tokenizer bytes, vocab_size 257");
  EXPECT_CONTAINS(inspect.out, "c.validation.tok: checksum is right");
}

TEST(Command, ShowsDocuments) {
  const TempFolder folder;
  run({"build", "--out", folder.at("c"), folder.write("a", "first"),
       folder.write("b", "caf\xE9\n")});
  const std::string file = folder.at("c.train.tok");
  EXPECT_EQ(run({"show", file, "0"}).out, "first\n");
  EXPECT_EQ(run({"show", file, "1"}).out, "caf\xEF\xBF\xBD\n");
  EXPECT_EQ(run({"show", "--raw", file, "0"}).out, "first");
  EXPECT_EQ(run({"show", "--raw", file, "1"}).out, "caf\xE9\n");
  EXPECT_CONTAINS(data_error([&] { run({"show", file, "2"}); }), "its documents are 0 to 1");
}

TEST(Command, InspectFindsDamageAndGoesOn) {
  const TempFolder folder;
  run({"build", "--out", folder.at("c"), folder.write("a", "some text")});
  std::string bytes = read_bytes(folder.at("c.train.tok"));
  bytes[130] = 'X';
  const std::string bad = folder.write("bad.tok", bytes);
  const Outcome outcome = run({"inspect", bad, folder.at("none"), folder.at("c.train.tok")});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_CONTAINS(outcome.err, bad + ": its tokens are damaged");
  EXPECT_CONTAINS(outcome.err, "none: cannot be opened");
  EXPECT_CONTAINS(outcome.out, "c.train.tok: checksum is right");
}

TEST(Command, BaselineWritesJson) {
  const TempFolder folder;
  std::vector<std::string> arguments = {"build", "--out", folder.at("c"), "--held-out", "0.3"};
  for (uint64_t i = 0; i < 30; ++i) {
    arguments.push_back(folder.write(fmt::format("{}", i), random_text(i, 200, 3)));
  }
  run(arguments);
  const Outcome outcome = run({"baseline", "--train", folder.at("c.train.tok"), "--validation",
                               folder.at("c.validation.tok"), "--json", folder.at("base.json")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_CONTAINS(outcome.out, "nats/token");
  const auto json = nlohmann::json::parse(read_bytes(folder.at("base.json")));
  EXPECT_NEAR(json["bigram"]["nats_per_token"].get<double>(), std::log(3.0), 0.05);
  EXPECT_CONTAINS(outcome.out,
                  fmt::format("{:.6f}", json["unigram"]["nats_per_token"].get<double>()));
  EXPECT_CONTAINS(data_error([&] {
                    run({"baseline", "--train", folder.at("c.train.tok"), "--validation",
                         folder.at("c.validation.tok"), "--json", folder.at("no/base.json")});
                  }),
                  "cannot be written");
}

TEST(Command, WarnsOfStaleAndRepeatedFiles) {
  const TempFolder folder;
  const std::string text = folder.write("a", "text");
  folder.write("c.validation.tok", "of an earlier build");
  const Outcome outcome = run({"build", "--out", folder.at("c"), text, text});
  EXPECT_CONTAINS(outcome.err, "is named twice");
  EXPECT_CONTAINS(outcome.err, "c.validation.tok is of an earlier build");
}

TEST(Command, RefusesBadCommandLines) {
  const TempFolder folder;
  const std::string text = folder.write("a", "text");
  EXPECT_THROW(run({"build", "--out", folder.at("c"), "--held-out", "1", text}), DeckError);
  EXPECT_THROW(run({"build", "--out", folder.at("c"), "--held-out", "-0.5", text}), DeckError);
  EXPECT_THROW(run({"build", "--out", folder.at("c"), "--document-bytes", "5", text}), DeckError);
  EXPECT_THROW(run({"build", "--out", folder.at("c")}), CLI::ParseError);
  EXPECT_THROW(run({"build", text}), CLI::ParseError);
  EXPECT_THROW(run({}), CLI::ParseError);
  EXPECT_CONTAINS(data_error([&] {
                    run({"build", "--out", folder.at("c"), folder.at("")});
                  }),
                  "is a folder");
}

}  // namespace
}  // namespace espalier
