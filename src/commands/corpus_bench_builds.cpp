// SPDX-License-Identifier: Apache-2.0
// Whole builds by one rank and by all, and the order of the whole measurement.
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands/corpus_bench_stages.hpp"
#include "core/clock.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/build/store_builder.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPiecesARank = 16;

/// One kind of whole build.
struct BuildCase {
  std::string name;
  BuildRequest request;
  std::shared_ptr<const Tokenizer> tokenizer;
};

std::vector<BuildCase> build_cases(const CorpusConfig& deck, std::vector<SourceConfig> sources,
                                   const std::string& output, double shard_mib, bool repeated) {
  BuildCase bytes;
  bytes.name = "bytes, nothing cleaned";
  bytes.request.config.sources = std::move(sources);
  bytes.request.config.build.output = output;
  bytes.request.config.build.shard_mib = shard_mib;
  bytes.request.config.build.longest_document_mib = deck.build.longest_document_mib;
  bytes.tokenizer = make_tokenizer(TokenizerConfig{});
  BuildCase whole = bytes;
  whole.name = repeated ? "as the deck says, duplicates kept" : "as the deck says";
  CorpusConfig& config = whole.request.config;
  config.clean = deck.clean;
  if (repeated) config.clean.deduplicate = Deduplication::none;
  config.faults = deck.faults;
  config.tokenizer = deck.tokenizer;
  config.build.held_out = deck.build.held_out;
  config.build.seed = deck.build.seed;
  whole.tokenizer = make_tokenizer(deck.tokenizer);
  return {bytes, whole};
}

class Builds {
 public:
  Builds(Team& team, const BenchPlace& place, int64_t bytes, std::vector<std::string>& notes)
      : team_(team), place_(place) {
    const std::string folder = place.folder + "/build";
    output_ = folder + "/store";
    std::vector<SourceConfig> sources = place.text.sources;
    team.together([&] {
      if (!team.leads()) return;
      fs::create_directories(folder);
      sources = write_build_inputs(place.text, folder, bytes, bytes_);
    });
    bytes_ = std::stoll(team.from_first(std::to_string(bytes_)));
    share_sources(sources);
    const double shard_mib =
        static_cast<double>(bytes_) / 1048576.0 / static_cast<double>(kPiecesARank * team.size());
    const bool repeated = std::stoi(team.from_first(bytes_ > place.text.bytes ? "1" : "0")) != 0;
    cases_ = build_cases(place.config, sources, output_, shard_mib, repeated);
    notes.push_back(
        fmt::format("whole builds: {} of text ({}) in pieces of {:.1f} MiB, flushed to the disk",
                    format_bytes(static_cast<double>(bytes_)),
                    repeated ? "the sample again and again, so that duplicates are not looked for"
                             : "the sample once",
                    shard_mib));
  }

  std::vector<BenchRow> run() {
    std::vector<BenchRow> rows;
    const std::string group = "whole builds", plain = "write(2) and fsync(2), 2 bytes a token";
    const int64_t size = team_.size();
    rows.push_back({group, plain, "", BenchClock::wall, bytes_, 1, {}});
    for (const BuildCase& one : cases_) {
      const std::string alone = one.name + ", 1 rank";
      rows.push_back({group, alone, plain, BenchClock::wall, bytes_, 1, {}});
      if (size > 1)
        rows.push_back({group,
                        fmt::format("{}, {} ranks", one.name, size),
                        alone,
                        BenchClock::wall,
                        bytes_,
                        size,
                        {}});
    }
    for (int64_t repeat = 0; repeat < place_.repeats; ++repeat) {
      size_t row = 0;
      rows[row++].laps.push_back(lead([&] { write_plainly(output_ + ".plain", 2 * bytes_); }));
      for (const BuildCase& one : cases_) {
        clear();
        Alone alone;
        rows[row++].laps.push_back(lead([&] { build_store(one.request, *one.tokenizer, alone); }));
        if (size == 1) continue;
        clear();
        const double start = monotonic_seconds();
        build_store(one.request, *one.tokenizer, team_);
        rows[row++].laps.push_back({monotonic_seconds() - start, 0.0});
      }
    }
    return rows;
  }

 private:
  // Names and places of the sources, which rank 0 alone has drawn.
  void share_sources(std::vector<SourceConfig>& sources) {
    nlohmann::json list = nlohmann::json::array();
    for (const SourceConfig& s : sources)
      list.push_back({s.name, s.paths.front(), s.language, s.weight, s.separator});
    list = nlohmann::json::parse(team_.from_first(list.dump()));
    sources.clear();
    for (const auto& one : list) {
      SourceConfig source;
      source.name = one[0];
      source.paths = {one[1]};
      source.language = one[2];
      source.weight = one[3];
      source.separator = one[4];
      source.format = SourceFormat::text;
      source.documents = DocumentCut::separator;
      sources.push_back(std::move(source));
    }
  }

  Lap lead(const std::function<void()>& action) {
    Lap lap;
    team_.together([&] {
      if (team_.leads()) lap = take_lap(action);
    });
    return lap;
  }
  // So that no lap pays for what the one before has written.
  void clear() {
    team_.together([&] {
      if (!team_.leads()) return;
      fs::remove_all(output_);
      fs::remove(output_ + ".plain");
    });
  }

  Team& team_;
  const BenchPlace& place_;
  int64_t bytes_ = 0;
  std::string output_;
  std::vector<BuildCase> cases_;
};

/// A folder of rank 0 that goes away with this.
class Scratch {
 public:
  Scratch(Team& team, const std::string& parent) : leads_(team.leads()) {
    team.together([&] {
      if (!leads_) return;
      std::string name = parent + "/espalier-bench-XXXXXX";
      if (::mkdtemp(name.data()) == nullptr) fail_file(name, "be created", errno);
      path_ = name;
    });
    path_ = team.from_first(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    if (leads_) fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool leads_;
  std::string path_;
};

double load_of_machine() {
  double load = 0.0;
  return ::getloadavg(&load, 1) == 1 ? load : -1.0;
}

void append(std::vector<BenchRow>& rows, std::vector<BenchRow> more) {
  for (BenchRow& row : more) rows.push_back(std::move(row));
}

std::vector<BenchRow> bench_stages(const CorpusBench& request, const BenchPlace& place,
                                   std::vector<std::string>& notes) {
  std::vector<BenchRow> rows = bench_reading(place);
  append(rows, bench_cleaning(place));
  append(rows, bench_hashing(place));
  append(rows, bench_tokenizing(place, request.tokenizers, notes));
  append(rows, bench_shards(place));
  append(rows, bench_feeding(place));
  return rows;
}

}  // namespace

std::vector<BenchRow> bench_builds(const BenchPlace& place, int64_t bytes, Team& team,
                                   std::vector<std::string>& notes) {
  return Builds(team, place, bytes, notes).run();
}

int run_corpus_bench(const CorpusBench& request, Team& team) {
  const CorpusConfig config = require_corpus_deck(request.deck, request.overrides);
  const Scratch scratch(team, request.folder);
  BenchText text;
  std::vector<BenchRow> rows;
  std::vector<std::string> notes;
  const double load = load_of_machine();
  const BenchPlace place{config, text, scratch.path(), request.repeats, request.seq_length};
  team.together([&] {
    if (!team.leads()) return;
    text = draw_bench_text(config, request.mib);
    info("{}: {} documents, {} of text from {} sources; load average {:.2f} before", request.deck,
         text.count, format_bytes(static_cast<double>(text.bytes)), text.sources.size(), load);
    rows = bench_stages(request, place, notes);
  });
  const auto build_bytes = static_cast<int64_t>(request.build_mib * 1048576.0);
  append(rows, bench_builds(place, build_bytes, team, notes));
  team.together([&] {
    if (!team.leads()) return;
    for (const std::string& note : notes) info("{}", note);
    info("best and median of {}, the stages of a group in turn; a ratio above 1 is faster",
         request.repeats);
    for (const std::string& line : bench_table(rows)) info("{}", line);
    if (request.json.empty()) return;
    const nlohmann::json all = {{"deck", request.deck},    {"text_bytes", text.bytes},
                                {"documents", text.count}, {"ranks", team.size()},
                                {"load_average", load},    {"notes", notes},
                                {"rows", bench_json(rows)}};
    write_text_file(request.json,
                    all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
  return static_cast<int>(ExitCode::success);
}

}  // namespace espalier
