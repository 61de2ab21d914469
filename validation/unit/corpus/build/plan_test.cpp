// SPDX-License-Identifier: Apache-2.0
// The plan of a build, the records of its pieces, and how the work is shared.
#include <algorithm>
#include <set>

#include "build_files.hpp"
#include "corpus/build/build_plan.hpp"
#include "corpus/build/piece_record.hpp"
#include "corpus/build/progress_board.hpp"
#include "corpus/build/work_share.hpp"

namespace espalier::testing {
namespace {

std::string lines(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += random_line(1, i) + "\n";
  return text;
}

struct TwoSources {
  TempFolder folder;
  CorpusConfig config;
  TwoSources() {
    config = line_config(folder.write("a.txt", lines(200)), folder.at("store"));
    SourceConfig second = config.sources[0];
    second.name = "more";
    second.paths = {folder.write("b.txt", lines(100)), folder.write("c.txt", lines(50))};
    config.sources.push_back(second);
  }
};

TEST(BuildPlan, PiecesStandBySourceAndAreNumberedInIt) {
  TwoSources two;
  const BuildPlan plan = make_build_plan(two.config, "bytes");
  ASSERT_EQ(plan.first_piece.size(), 3U);
  EXPECT_EQ(plan.first_piece[0], 0);
  EXPECT_GT(plan.first_piece[1], 5);
  EXPECT_EQ(plan.first_piece[2], static_cast<int64_t>(plan.pieces.size()));
  int64_t bytes = 0;
  for (int64_t i = 0; i < plan.first_piece[2]; ++i) {
    const InputPiece& piece = plan.pieces[static_cast<size_t>(i)];
    EXPECT_EQ(piece.source, i < plan.first_piece[1] ? 0 : 1);
    bytes += piece.bytes;
  }
  EXPECT_EQ(plan.bytes(), bytes);
  EXPECT_EQ(bytes, static_cast<int64_t>(lines(200).size() + lines(100).size() + lines(50).size()));
  EXPECT_EQ(plan.shard_name(2, Stream::train), "train/lines-00002.tok");
  EXPECT_EQ(plan.shard_name(plan.first_piece[1] + 1, Stream::validation),
            "validation/more-00001.tok");
}

TEST(BuildPlan, RefusesAnOutputAmongItsInputs) {
  TwoSources two;
  const auto refusal = [&](const std::string& path, const std::string& output) {
    CorpusConfig config = two.config;
    config.sources[1].paths = {path};
    config.build.output = output;
    try {
      make_build_plan(config, "bytes");
    } catch (const DeckError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string folder = std::filesystem::path(two.folder.at("store")).parent_path();
  EXPECT_NE(refusal(folder, two.folder.at("store")).find("choose a place outside"),
            std::string::npos);
  EXPECT_NE(refusal(folder + "/**/*.txt", two.folder.at("deep/store")).find("source more reads"),
            std::string::npos);
  EXPECT_EQ(refusal(folder + "/*.txt", two.folder.at("store")), "none");
  EXPECT_EQ(refusal(folder, folder + "-beside"), "none");
}

TEST(BuildPlan, RefusesWhatNoPieceCouldBeBuiltBy) {
  TwoSources two;
  two.config.sources[1].encoding = "foo";
  EXPECT_THROW(make_build_plan(two.config, "bytes"), DeckError);
  two.config.sources[1].encoding = "shift_jis";
  two.config.sources[1].language = "klingon";
  two.config.clean.min_script_share = 0.5;
  EXPECT_THROW(make_build_plan(two.config, "bytes"), DeckError);
}

TEST(BuildPlan, ComesBackFromItsText) {
  TwoSources two;
  two.config.sources[1].paths.push_back(two.folder.write("caf\xe9.txt", lines(9)));
  const BuildPlan plan = make_build_plan(two.config, "bytes");
  const std::string text = encode_plan(plan);
  const BuildPlan back = decode_plan(text, two.config, "here");
  EXPECT_EQ(encode_plan(back), text);
  EXPECT_EQ(plan_fingerprint(back), plan_fingerprint(plan));
  EXPECT_EQ(back.first_piece, plan.first_piece);
  EXPECT_EQ(back.files[1].back().path, two.folder.at("caf\xe9.txt"));
  for (const char* bad : {"", "{}", "[1]", "{\"tokenizer\": 1}", "{\"tokenizer\": \"x\"}"})
    EXPECT_THROW(decode_plan(bad, two.config, "here"), DataError) << bad;
}

TEST(BuildPlan, DifferencesAreNamed) {
  TwoSources two;
  const std::string before = encode_plan(make_build_plan(two.config, "bytes"));
  const auto changes = [&](const CorpusConfig& config, const char* tokenizer = "bytes") {
    return fmt::format(
        "{}",
        fmt::join(plan_differences(before, encode_plan(make_build_plan(config, tokenizer))), "|"));
  };
  EXPECT_EQ(changes(two.config), "");
  CorpusConfig other = two.config;  // what does not touch the bytes
  other.build.output = "elsewhere";
  other.tokenizer.path = "moved.json";
  other.train_tokenizer.vocab_size = 999;
  EXPECT_EQ(changes(other), "");
  other.build.seed = 2;
  EXPECT_EQ(changes(other), "the deck said seed = 1, and says seed = 2");
  EXPECT_EQ(changes(two.config, "gpt2:1"), "the tokenizer was bytes, and is gpt2:1");
  two.folder.write("b.txt", lines(101));
  EXPECT_EQ(changes(two.config), two.folder.at("b.txt") + " has changed");
  two.folder.write("b.txt", lines(100));
  std::filesystem::remove(two.folder.at("c.txt"));
  two.config.sources[1].paths = {two.folder.at("b.txt"), two.folder.write("d.txt", lines(3))};
  const std::string text = changes(two.config);
  EXPECT_NE(text.find("c.txt is gone"), std::string::npos) << text;
  EXPECT_NE(text.find("d.txt is new"), std::string::npos) << text;
  EXPECT_EQ(plan_differences(before, "{}").front(), "it is not readable");
}

TEST(BuildPlan, ManyDifferencesAreCut) {
  TwoSources two;
  const std::string before = encode_plan(make_build_plan(two.config, "bytes"));
  for (int i = 0; i < 30; ++i)
    two.config.sources[0].paths.push_back(two.folder.write(fmt::format("n{}.txt", i), "text\n"));
  const auto changes = plan_differences(before, encode_plan(make_build_plan(two.config, "bytes")));
  ASSERT_EQ(changes.size(), 9U);
  EXPECT_NE(changes.back().find(" more"), std::string::npos);
}

TEST(BuildPlan, FingerprintKnowsWhatDecidesTheBytes) {
  TwoSources two;
  std::set<std::string> prints = {plan_fingerprint(make_build_plan(two.config, "bytes"))};
  const auto add = [&](const std::string& tokenizer = "bytes") {
    EXPECT_TRUE(prints.insert(plan_fingerprint(make_build_plan(two.config, tokenizer))).second);
  };
  add("gpt2:1");
  two.config.build.held_out = 0.1;
  add();
  two.config.sources[0].weight = 3;
  add();
  two.config.clean.min_characters = 3;
  add();
  std::swap(two.config.sources[1].paths[0], two.config.sources[1].paths[1]);
  add();
  two.folder.write("b.txt", lines(101));
  add();
}

ShardRecord shard(Stream stream) {
  return {"train/x-00000.tok", 1, stream, 3, 40, 37, 0xfedcba9876543210U, 7};
}

TEST(PieceRecord, ComesBackAndDamageIsSeen) {
  const TempFolder folder;
  const std::string path = folder.at("piece.json");
  PieceRecord record(5);
  record.documents_read = 9;
  record.bytes_read = 1234;
  record.documents_kept = 4;
  record.faults.note(FaultKind::bad_json, {"caf\xe9.jsonl", 3, "odd"});
  record.cleaning.of(CleanStep::symbol_ratio) = {0, 5, 300};
  record.shards = {shard(Stream::train), shard(Stream::validation)};
  write_record(path, record);
  const PieceRecord back = read_piece_record(path, 5);
  EXPECT_EQ(back.documents_read, 9);
  EXPECT_EQ(back.bytes_read, 1234);
  EXPECT_EQ(back.documents_kept, 4);
  EXPECT_EQ(back.faults.count(FaultKind::bad_json), 1);
  EXPECT_EQ(back.cleaning.steps[4].dropped_bytes, 300);
  ASSERT_EQ(back.shards.size(), 2U);
  EXPECT_EQ(back.shards[1].stream, Stream::validation);
  EXPECT_EQ(back.shards[0].checksum, 0xfedcba9876543210U);
  const std::string whole = read_bytes(path);
  for (size_t size = 0; size + 2 < whole.size(); size += 7) {
    folder.write("piece.json", whole.substr(0, size));
    EXPECT_THROW(read_piece_record(path, 5), DataError) << size;
  }
  const FinalRecord last = {{shard(Stream::train)}, {2, 3, 55}};
  write_record(path, last);
  EXPECT_EQ(read_final_record(path).dropped.near, 3);
  EXPECT_EQ(read_final_record(path).shards.size(), 1U);
  EXPECT_THROW(read_piece_record(path, 5), DataError);
}

TEST(ProgressBoard, TellsTheSumAndTheEnds) {
  const TempFolder folder;
  const std::string path = folder.at("board");
  ProgressBoard::make(path, 3);
  ProgressBoard a(path, 0, 3), b(path, 1, 3), c(path, 2, 3);
  a.tell({10, 20});
  b.tell({1, 2});
  b.tell({100, 200});
  EXPECT_EQ(c.look().sum.input_bytes, 110);
  EXPECT_EQ(c.look().sum.text_bytes, 220);
  EXPECT_EQ(c.look().finished, 0);
  a.tell_finished();
  EXPECT_EQ(b.look().finished, 1);
  EXPECT_FALSE(b.look().has_failed);
  c.tell_failed();
  EXPECT_TRUE(a.look().has_failed);
  EXPECT_EQ(a.look().sum.input_bytes, 110);
  const ProgressBoard gone(folder.at("none"), 0, 3);  // nobody waits for it
  EXPECT_EQ(gone.look().finished, 3);
}

// Every work once, ascending, and no member has more than 4/3 of the best possible.
TEST(WorkShare, IsAPartitionInGoodBalance) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto draw = [&](uint64_t at) { return random_bits(seed, hash_name("share"), at); };
    std::vector<int64_t> bytes(draw(0) % 40);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = draw(2) % 3 == 0 ? 0 : static_cast<int64_t>(draw(10 + i) % 1000);
    const int members = 1 + static_cast<int>(draw(1) % 7);
    std::vector<int> seen(bytes.size(), 0);
    int64_t most = 0, sum = 0, largest = 0;
    for (int rank = 0; rank < members; ++rank) {
      const std::vector<int64_t> own = share_of_work(bytes, rank, members);
      EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
      int64_t load = 0;
      for (const int64_t i : own) {
        ++seen[static_cast<size_t>(i)];
        load += bytes[static_cast<size_t>(i)] + 1;
      }
      most = std::max(most, load);
    }
    for (const int64_t b : bytes) {
      sum += b + 1;
      largest = std::max(largest, b + 1);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(bytes.size()));
    // The best is at least the mean and the largest; Graham: the largest last one on top of it.
    EXPECT_LE(most * members, sum + (members - 1) * largest);
  }
}

}  // namespace
}  // namespace espalier::testing
