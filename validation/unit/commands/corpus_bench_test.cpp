// SPDX-License-Identifier: Apache-2.0
// espalier bench corpus on a small text: every stage runs, and rates and ratios are what the laps
// say. No time is asserted.
#include "commands/corpus_bench.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "../corpus/corpus_files.hpp"
#include "commands/corpus_bench_text.hpp"
#include "core/durable_file.hpp"

namespace espalier {
namespace {

using testing::TempFolder;

constexpr int64_t kLargestJson = 1 << 20;

BenchRow row(const char* name, const char* against, int64_t ranks, std::vector<Lap> laps) {
  return {"group", name, against, BenchClock::wall, 6'000'000, ranks, std::move(laps)};
}

// The text of a small corpus: two languages, a line each, long enough for a batch of 64 * 16.
std::string write_deck(const TempFolder& folder) {
  std::string english, russian;
  for (int i = 0; i < 400; ++i) {
    english += "Line " + std::to_string(i * i) + " of a text that says little & <nothing>.\n";
    russian += "Строка " + std::to_string(i * 7) + " без смысла.\n";
  }
  folder.write("en.txt", english);
  folder.write("ru.txt", russian);
  return folder.write("deck.toml",
                      "[build]\noutput = \"store\"\n[clean]\nnormalise = \"nfc\"\n"
                      "min_script_share = 0.2\ndeduplicate = \"near\"\n[[source]]\nname = \"en\"\n"
                      "language = \"en\"\npaths = [\"" +
                          folder.at("en.txt") +
                          "\"]\n"
                          "documents = \"size\"\ndocument_bytes = 1024\n[[source]]\nname = \"ru\"\n"
                          "language = \"ru\"\npaths = [\"" +
                          folder.at("ru.txt") +
                          "\"]\n"
                          "documents = \"line\"\n");
}

TEST(CorpusBench, RatesCountRanksAndRatiosCountAllOfThem) {
  const std::vector<BenchRow> rows = {row("one", "", 1, {{2.0, 1.0}, {3.0, 1.0}, {6.0, 4.0}}),
                                      row("two", "one", 2, {{1.0, 0.0}, {1.5, 0.0}})};
  EXPECT_DOUBLE_EQ(rate_of(rows[0], BenchClock::wall).best, 3.0);
  EXPECT_DOUBLE_EQ(rate_of(rows[0], BenchClock::wall).median, 2.0);
  EXPECT_DOUBLE_EQ(rate_of(rows[0], BenchClock::cpu).median, 6.0);
  EXPECT_DOUBLE_EQ(rate_of(rows[1], BenchClock::wall).best, 3.0);  // of each of two ranks
  EXPECT_DOUBLE_EQ(rate_of(rows[1], BenchClock::wall).median, 2.4);
  EXPECT_EQ(rate_of(rows[1], BenchClock::cpu).best, 0.0);
  EXPECT_DOUBLE_EQ(ratio_of(rows, rows[1]).best, 2.0);
  EXPECT_DOUBLE_EQ(ratio_of(rows, rows[1]).median, 2.4);
  EXPECT_EQ(ratio_of(rows, rows[0]).best, 0.0);

  const nlohmann::json json = bench_json(rows);
  EXPECT_EQ(json[1]["stage"], "two");
  EXPECT_EQ(json[1]["wall_seconds"], (nlohmann::json{1.0, 1.5}));
  EXPECT_FALSE(json[1].contains("cpu_seconds"));
  EXPECT_EQ(json[1]["ratio"]["to"], "one");
  EXPECT_EQ(json[1]["ratio"]["clock"], "wall");
  EXPECT_FALSE(json[0].contains("ratio"));
}

TEST(CorpusBench, StagesRunInTurnAndPreparationIsNotTimed) {
  std::string order;
  const auto rows = measure_stages("group", BenchClock::cpu, 2,
                                   {{"a", 1, [&] { order += 'a'; }, "", [&] { order += 'p'; }},
                                    {"b", 1, [&] { order += 'b'; }, "a"}});
  EXPECT_EQ(order, "pabpab");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].laps.size(), 2u);
  EXPECT_EQ(rows[1].against, "a");
}

TEST(CorpusBench, CompressionComesBack) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i);
  EXPECT_EQ(gunzip_alone(gzip_bytes(text)), static_cast<int64_t>(text.size()));
  EXPECT_EQ(unzstd_alone(zstd_bytes(text)), static_cast<int64_t>(text.size()));
  EXPECT_LT(zstd_bytes(text).size(), text.size());
}

TEST(CorpusBench, EveryStageRunsOnASmallText) {
  const TempFolder folder;
  CorpusBench request;
  request.deck = write_deck(folder);
  request.folder = folder.at(".");
  request.json = folder.at("figures.json");
  request.mib = 0.05;
  request.build_mib = 0.1;
  request.repeats = 2;
  request.seq_length = 16;
  Alone team;
  EXPECT_EQ(run_corpus_bench(request, team), 0);

  const auto json = nlohmann::json::parse(read_text_file(request.json, kLargestJson));
  EXPECT_GT(json["text_bytes"], 10'000);
  EXPECT_EQ(json["ranks"], 1);
  std::set<std::string> stages;
  for (const auto& one : json["rows"]) {
    EXPECT_EQ(one["wall_seconds"].size(), 2u) << one;
    EXPECT_GT(one["text_bytes"], 0) << one;
    EXPECT_TRUE(
        stages.insert(one["group"].get<std::string>() + ": " + one["stage"].get<std::string>())
            .second)
        << one;
  }
  for (const char* stage :
       {"reading into documents, UTF-8 checked: JSON Lines",
        "reading into documents, UTF-8 checked: HTML, a file each",
        "UTF-8 and cleaning, with a copy: all of the deck's cleaning",
        "hashing: near keys, sorted and written", "tokenizing: bytes",
        "read back, from the page cache: windows in the order of a stream",
        "batches, a byte a token (millions of tokens/s): best_fit, mixed and balanced",
        "whole builds: bytes, nothing cleaned, 1 rank"})
    EXPECT_EQ(stages.count(stage), 1u) << stage;
  // Nothing is left but what was there and what was asked for.
  EXPECT_EQ(folder.names().size(), 4u);
}

TEST(CorpusBench, SaysWhatATokenizerShouldLookLike) {
  const TempFolder folder;
  CorpusBench request;
  request.deck = write_deck(folder);
  request.folder = folder.at(".");
  request.mib = 0.01;
  request.repeats = 1;
  request.seq_length = 16;
  request.tokenizers = {"bytes=x"};
  Alone team;
  try {
    run_corpus_bench(request, team);
    FAIL() << "no error";
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("KIND=PATH"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace espalier
