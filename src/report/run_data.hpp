// SPDX-License-Identifier: Apache-2.0
// A run folder read back: metrics.jsonl as columns, and the small files beside it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/series.hpp"

namespace espalier {

/// What is wrong or unusual in metrics.jsonl; the page tells all of it.
struct ReadingNotes {
  bool truncated_last_line = false;  ///< half a line at the end: the run was killed, or is writing
  int64_t broken_lines = 0;          ///< not a record: not JSON, no kind, a step without its number
  int64_t first_broken_line = 0;     ///< 1-based
  int64_t unknown_kinds = 0;         ///< records of a kind that this version does not know
  int64_t superseded_steps = 0;      ///< records that a resumed run wrote again
  std::vector<int64_t> resumed_at;   ///< first steps of the second and later runs in the file
};

struct Sample {
  std::string title;  ///< the prompt, or empty
  std::string text;
};

/// The checkpoints of all runs in the file.
struct SavedCheckpoints {
  int64_t count = 0;
  int64_t last_step = 0;
  double seconds = 0.0, stall_seconds = 0.0;  ///< summed, what was recorded
};

struct RunData {
  std::string directory;
  nlohmann::ordered_json run = nlohmann::ordered_json::object();  ///< last "run" record
  nlohmann::ordered_json end;  ///< last "end" record, null if the last run has none (yet)

  std::vector<int64_t> steps;  ///< ascending
  std::map<std::string, Series>
      columns;                     ///< by field; "part/<name>", "exposed/<axis>", "stage/<number>"
  std::vector<size_t> first_rows;  ///< rows with the first step of a run
  std::vector<int64_t> validation_steps;
  Series validation_losses;
  SavedCheckpoints checkpoints;
  ReadingNotes notes;

  std::optional<double> unigram_nats, bigram_nats;  ///< baseline.json, nats a token
  std::vector<Sample> samples;                      ///< samples.json, else samples.txt
  std::optional<std::string> deck;                  ///< deck.toml
  std::vector<std::string> side_file_faults;        ///< side files that are there but no use

  /// The column, or NaN for every step if no record has the field.
  Series column(const std::string& name) const;
};

/// Reads metrics.jsonl and, where they are, deck.toml, baseline.json, samples.json, samples.txt.
///
/// The file is a sequence: a step number that does not grow means that a run was resumed, and the
/// records from that step on, written before, are dropped.
/// Errors  DataError if the folder or metrics.jsonl is missing or has no step record
RunData read_run(const std::string& directory);

}  // namespace espalier
