// SPDX-License-Identifier: Apache-2.0
// What espalier bench corpus measures, and how: stages in turn, each timed by both clocks. Neither
// MPI nor Kokkos: what all ranks do together goes through a Team.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "corpus/build/team.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

struct CorpusBench {
  std::string deck;
  std::vector<std::string> overrides;
  std::vector<std::string> tokenizers;  // KIND=PATH, beside bytes and the deck's own
  std::string folder = ".";             // a scratch folder is made in it, and goes away again
  std::string json;                     // file for the figures; empty: none
  double mib = 32.0;                    // of text for the stages
  double build_mib = 256.0;             // of text for whole builds: the sample again and again
  int64_t repeats = 5;
  int64_t seq_length = 1024;  // of the batches
};

/// One run of a stage, seconds.
struct Lap {
  double wall = 0.0;
  double cpu = 0.0;  // of this process and of those that it waited for; 0: says nothing
};

/// Which seconds a ratio compares: those of the wall where a disk or several ranks are at work.
enum class BenchClock { cpu, wall };

/// Something to be measured. Stages of a group are run in turn, so that all see the same machine.
struct BenchStage {
  std::string name;
  int64_t bytes = 0;          // of text that one run goes through
  std::function<void()> run;  // one lap
  std::string against;        // the stage of the group that it is compared with; empty: none
  std::function<void()> prepare = {};  // before each lap, not timed
};

struct BenchRow {
  std::string group, name, against;
  BenchClock clock = BenchClock::cpu;
  int64_t bytes = 0;
  int64_t ranks = 1;  // that worked on them together
  std::vector<Lap> laps;
};

/// Seconds of `action` by both clocks.
Lap take_lap(const std::function<void()>& action);

std::vector<BenchRow> measure_stages(const std::string& group, BenchClock clock, int64_t repeats,
                                     const std::vector<BenchStage>& stages);

/// MB/s of text a core (wall: a rank) of the best and of the median lap; 0 where there is none.
struct BenchRate {
  double best = 0.0, median = 0.0;
};
BenchRate rate_of(const BenchRow& row, BenchClock clock);

/// How often as fast as the row that it is compared with: above 1 is faster. All ranks together
/// count, so that a row of several ranks shows how it scales. 0 without such a row.
BenchRate ratio_of(const std::vector<BenchRow>& rows, const BenchRow& row);

/// The table for people, a line each, and the same figures as JSON.
std::vector<std::string> bench_table(const std::vector<BenchRow>& rows);
nlohmann::json bench_json(const std::vector<BenchRow>& rows);

/// All of it: draws the sample, measures, prints, and writes the JSON file. Collective.
/// Errors    DeckError, DataError, LaunchError
int run_corpus_bench(const CorpusBench& request, Team& team);

}  // namespace espalier
