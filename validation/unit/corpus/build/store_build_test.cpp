// SPDX-License-Identifier: Apache-2.0
// Whole builds: the same bytes for every team, nothing lost or counted twice, and samples of text.
#include <atomic>
#include <set>

#include "build_files.hpp"
#include "core/durable_file.hpp"
#include "corpus/build/build_plan.hpp"
#include "corpus/build/text_sample.hpp"
#include "corpus/clean/cleaner.hpp"
#include "corpus/hash.hpp"
#include "corpus/held_out.hpp"
#include "corpus/source/input_faults.hpp"
#include "corpus/store/held_out_check.hpp"
#include "corpus/store/store_reader.hpp"

namespace espalier::testing {
namespace {

namespace fs = std::filesystem;

/// JSON lines of all fates, by draw: kept, equal to an earlier one, too short, too many symbols,
/// nothing but controls, blank, no JSON, without the field, too long.
std::string random_records(uint64_t seed, int64_t lines) {
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    const uint64_t draw = random_bits(seed, hash_name("fate"), static_cast<uint64_t>(i)) % 24;
    const auto record = [](const std::string& body) { return "{\"text\": \"" + body + "\"}\n"; };
    if (draw < 14)
      text += record(random_line(seed, i));
    else if (draw < 17)
      text += record(random_line(seed, i / 2));
    else if (draw == 17)
      text += record("ab");
    else if (draw == 18)
      text += record(fmt::format("%%% !!! ;;; ??? {}", i));
    else if (draw == 19)
      text += record("\\u0001\\u0002");
    else if (draw == 20)
      text += record("   ");
    else if (draw == 21)
      text += "{\"text\": broken}\n";
    else if (draw == 22)
      text += "{\"body\": \"text\"}\n";
    else
      text += record(std::string(3000, 'x'));
  }
  return text;
}

struct StoreBuild : ::testing::Test {
  TempFolder folder;

  CorpusConfig record_config(uint64_t seed, int64_t lines, Deduplication deduplicate) {
    CorpusConfig config =
        line_config(folder.write(fmt::format("r{}.jsonl", seed), random_records(seed, lines)),
                    folder.at("store"), 2048);
    config.sources[0].documents = DocumentCut::file;
    config.build.held_out = 0.2;
    config.build.longest_document_mib = 2048.0 / 1048576;
    config.clean.remove_control = true;
    config.clean.min_characters = 1;
    config.clean.min_characters = seed % 2 == 0 ? 0 : 5;
    config.clean.max_symbol_ratio = 0.5;
    config.clean.deduplicate = deduplicate;
    return config;
  }
};

TEST_F(StoreBuild, EveryTeamGivesTheSameBytes) {
  for (const Deduplication deduplicate :
       {Deduplication::none, Deduplication::exact, Deduplication::near}) {
    CorpusConfig config = record_config(1, 300, deduplicate);
    const BuildReport alone = build_alone(config);
    EXPECT_GT(alone.pieces, 8);
    const auto expected = all_files(config.build.output);
    for (const int members : {2, 3, 5}) {
      config.build.output = folder.at(fmt::format("by{}", members));
      std::atomic<int> reports{0};
      const auto errors = run_team(members, [&](Team& team) {
        const BuildReport report = build_store({config, false, {}}, ByteTokenizer(), team);
        reports += report.pieces == alone.pieces ? 1 : 0;
      });
      EXPECT_EQ(errors, std::vector<std::string>(static_cast<size_t>(members)));
      EXPECT_EQ(reports, members);
      EXPECT_EQ(all_files(config.build.output), expected) << members;
      fs::remove_all(config.build.output);
    }
    fs::remove_all(folder.at("store"));
  }
}

// Lines of the input = documents in the store + all that the manifest says was left out.
TEST_F(StoreBuild, NothingIsLostOrCountedTwice) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto lines = static_cast<int64_t>(50 + seed * 37);
    const CorpusConfig config =
        record_config(seed, lines, seed % 3 == 0 ? Deduplication::none : Deduplication::exact);
    const StoreManifest manifest = build_alone(config).manifest;
    const auto& source = manifest.details.at("sources").at(0);
    const InputFaults faults = InputFaults::from_json(source.at("faults"), 0);
    const CleanCounts cleaning = CleanCounts::from_json(source.at("cleaning"));
    int64_t dropped = 0, unread = 0;
    for (const StepCount& step : cleaning.steps) dropped += step.dropped;
    for (const FaultKind kind : {FaultKind::bad_json, FaultKind::missing_field,
                                 FaultKind::long_document, FaultKind::empty_document}) {
      EXPECT_GT(faults.count(kind) + (kind == FaultKind::empty_document ? 1 : 0), 0);
      unread += faults.count(kind);
    }
    const int64_t duplicates = source.at("duplicates").at("exact").get<int64_t>();
    EXPECT_EQ(source.at("duplicates").at("near").get<int64_t>(), 0);
    EXPECT_EQ(duplicates > 0, seed % 3 != 0);
    const int64_t kept = count_shards(manifest, Stream::train).documents +
                         count_shards(manifest, Stream::validation).documents;
    EXPECT_EQ(kept + dropped + duplicates + unread, lines) << seed;
    fs::remove_all(config.build.output);
  }
}

// The first of equal documents stays, whatever piece it is in; the held-out share is by text.
TEST_F(StoreBuild, TheStoreHoldsWhatItShould) {
  const CorpusConfig config = record_config(3, 1500, Deduplication::exact);
  const StoreManifest manifest = build_alone(config).manifest;
  std::set<std::string> texts;
  int64_t held_out = 0;
  const int64_t train = count_shards(manifest, Stream::train).documents;
  const int64_t all = train + count_shards(manifest, Stream::validation).documents;
  for (int64_t i = 0; i < all; ++i) {
    const StoreDocument document = read_document(config.build.output, manifest, i);
    const std::string text = ByteTokenizer().decode(document.tokens);
    EXPECT_EQ(document.hash, hash_bytes(text.data(), text.size()));
    EXPECT_TRUE(texts.insert(text).second) << text;
    const bool is_out = is_held_out(text, 0.2, 1);
    EXPECT_EQ(is_out, i >= train);
    held_out += is_out ? 1 : 0;
  }
  std::set<std::string> expected;
  for (int64_t i = 0; i < 1500; ++i) {
    const uint64_t draw = random_bits(3, hash_name("fate"), static_cast<uint64_t>(i)) % 24;
    if (draw < 14) expected.insert(random_line(3, i));
    if (draw >= 14 && draw < 17) expected.insert(random_line(3, i / 2));
  }
  EXPECT_EQ(texts, expected);
  // Binomial: four standard deviations.
  const double mean = 0.2 * static_cast<double>(all);
  EXPECT_NEAR(static_cast<double>(held_out), mean, 4.0 * std::sqrt(0.8 * mean));
  for (const ShardRecord& shard : manifest.shards)
    verify_shard(config.build.output, manifest, shard, nullptr);
}

TEST_F(StoreBuild, AnErrorOfOneIsTheErrorOfAll) {
  CorpusConfig config = record_config(2, 400, Deduplication::near);
  config.faults.bad_line = OnFault::fatal;
  const auto errors = run_team(3, [&](Team& team) {
    build_store({config, false, {}}, ByteTokenizer(), team);
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    EXPECT_NE(error.find("set faults.bad_line"), std::string::npos) << error;
  }
  EXPECT_FALSE(fs::exists(config.build.output));
}

TEST_F(StoreBuild, WhatCannotBeCleanedIsRefusedBeforeAnythingIsMade) {
  CorpusConfig config = record_config(2, 20, Deduplication::none);
  config.clean.min_script_share = 0.5;
  config.sources[0].language = "tlh";
  EXPECT_THROW(build_alone(config), DeckError);
  config = record_config(2, 20, Deduplication::near);
  config.clean.similarity = 0.01;
  EXPECT_THROW(build_alone(config), DeckError);
  EXPECT_FALSE(fs::exists(config.build.output + ".building"));
}

TEST_F(StoreBuild, NothingLeftSaysWhereItWent) {
  CorpusConfig config = record_config(4, 100, Deduplication::none);
  config.clean.min_characters = 100000;
  try {
    build_alone(config);
    FAIL() << "a store of nothing";
  } catch (const DataError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no document is left"), std::string::npos);
    EXPECT_NE(text.find("dropped by [clean], "), std::string::npos) << text;
    EXPECT_NE(text.find("bad_json"), std::string::npos) << text;
  }
  config = record_config(5, 40, Deduplication::none);
  config.build.held_out = 1e-9;
  EXPECT_THROW(build_alone(config, true), DataError);
}

// Records that are gone are done again, each alone; others are not read.
TEST_F(StoreBuild, GoesOnBehindItsFinishedPieces) {
  CorpusConfig config = record_config(1, 300, Deduplication::near);
  build_alone(config);
  const auto expected = all_files(config.build.output);
  fs::remove_all(config.build.output);
  const BuildFolder build{config.build.output};
  std::atomic<int> told{0};
  struct Enough : LaunchError {
    Enough() : LaunchError("enough") {}
  };
  Alone team;
  const auto stop = [&](const BuildProgress& progress) {
    if (progress.done > progress.total / 2 && ++told > 0) throw Enough();
  };
  EXPECT_THROW(build_store({config, false, stop}, ByteTokenizer(), team), Enough);
  int64_t found = 0;
  const BuildPlan plan = make_build_plan(config, "bytes");
  for (int64_t i = 0; i < static_cast<int64_t>(plan.pieces.size()); ++i)
    found += fs::exists(build.record(i)) ? 1 : 0;
  EXPECT_GT(found, 2);
  const BuildReport report = build_alone(config);
  EXPECT_EQ(report.pieces_found, found);
  EXPECT_LT(report.text_bytes, plan.bytes() * 3 / 4);
  EXPECT_EQ(all_files(config.build.output), expected);
}

/// A store in which a validation shard was moved to the training ones, its manifest made anew.
TEST_F(StoreBuild, HeldOutTextAmongTheTrainingTextIsFound) {
  const CorpusConfig config = record_config(1, 400, Deduplication::none);
  StoreManifest manifest = build_alone(config).manifest;
  const std::string& store = config.build.output;
  const auto open = [&](Stream stream) {
    DataConfig data;
    data.verify = VerifyData::header;
    return open_tokens({store}, stream, data, 257);
  };
  EXPECT_NO_THROW(require_disjoint(open(Stream::train), open(Stream::validation)));
  verify_manifest(store);
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    if (manifest.shards[i].stream != Stream::validation) continue;
    ShardRecord copy = manifest.shards[i];
    copy.file = "train/lines-90000.tok";
    copy.stream = Stream::train;
    for (const char* end : {".tok", ".idx"})
      fs::copy_file(store + "/" + fs::path(manifest.shards[i].file).replace_extension(end).string(),
                    store + "/" + fs::path(copy.file).replace_extension(end).string());
    manifest.shards.push_back(copy);
    break;
  }
  write_text_file(manifest_path(store), encode_manifest(manifest));
  try {
    require_disjoint(open(Stream::train), open(Stream::validation));
    FAIL() << "held-out text was not found";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("lines-90000.tok: document 0 is held out"),
              std::string::npos)
        << error.what();
  }
  const ByteTokenizer bytes;
  EXPECT_THROW(verify_shard(store, manifest, manifest.shards.back(), &bytes), DataError);
}

TEST_F(StoreBuild, AnyFlippedByteOfTheManifestIsSeen) {
  const CorpusConfig config = record_config(1, 60, Deduplication::none);
  build_alone(config);
  const std::string path = manifest_path(config.build.output), whole = read_bytes(path);
  verify_manifest(config.build.output);
  for (size_t i = 0; i < whole.size(); i += 3) {
    std::string text = whole;
    text[i] = static_cast<char>(text[i] ^ (1 << i % 8));
    folder.write("store/manifest.json", text);
    EXPECT_THROW(verify_manifest(config.build.output), DataError) << i;
  }
}

struct TextSample : ::testing::Test {
  TempFolder folder;
  std::vector<std::string> texts;

  std::vector<std::string> draw(const CorpusConfig& config) {
    std::vector<std::string> sample;
    int64_t bytes = 0;
    const SampleSize size = draw_sample(config, [&](std::string&& text) {
      bytes += static_cast<int64_t>(text.size());
      sample.push_back(std::move(text));
    });
    EXPECT_EQ(size.documents, static_cast<int64_t>(sample.size()));
    EXPECT_EQ(size.bytes, bytes);
    return sample;
  }

  std::string file(const std::string& name, uint64_t seed, int64_t lines) {
    std::string text;
    for (int64_t i = 0; i < lines; ++i) text += name + " " + random_line(seed, i) + "\n";
    return folder.write(name, text);
  }
};

TEST_F(TextSample, HasTheWishedSizeByWeightAndIsTheSameEachTime) {
  CorpusConfig config = line_config(file("a", 1, 60000), "");
  SourceConfig second = config.sources[0];
  second.name = "second";
  second.paths = {file("b", 2, 60000)};
  second.weight = 3.0;
  config.sources.push_back(second);
  config.build.held_out = 0.25;
  config.train_tokenizer.sample_mib = 1.0;
  const std::vector<std::string> sample = draw(config);
  int64_t bytes[2] = {0, 0};
  for (const std::string& text : sample) {
    bytes[text[0] - 'a'] += static_cast<int64_t>(text.size());
    EXPECT_FALSE(is_held_out(text, 0.25, 1));
  }
  EXPECT_NEAR(static_cast<double>(bytes[0]), 262144.0, 1000.0);
  EXPECT_NEAR(static_cast<double>(bytes[1]), 786432.0, 1000.0);
  EXPECT_EQ(draw(config), sample);
  config.train_tokenizer.seed = 2;
  EXPECT_NE(draw(config), sample);
}

TEST_F(TextSample, TakesAllWhereThereIsLess) {
  CorpusConfig config = line_config(file("a", 1, 300), "");
  config.clean.min_characters = 30;
  std::set<std::string> expected;
  for (int64_t i = 0; i < 300; ++i) {
    const std::string text = "a " + random_line(1, i);
    if (text.size() >= 30) expected.insert(text);
  }
  const std::vector<std::string> sample = draw(config);
  EXPECT_EQ(std::set<std::string>(sample.begin(), sample.end()), expected);
  EXPECT_EQ(sample.size(), expected.size());
}

}  // namespace
}  // namespace espalier::testing
