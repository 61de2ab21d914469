// SPDX-License-Identifier: Apache-2.0
// Cleaning of one document: normalisation and filters, each counted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "deck/corpus_config.hpp"

namespace espalier {

enum class CleanStep {
  normalise,
  remove_control,
  min_characters,
  max_characters,
  symbol_ratio,
  repeated_lines,
  script_share
};
constexpr int kCleanSteps = 7;
const char* clean_step_name(CleanStep step);

/// What one step did.
struct StepCount {
  int64_t changed = 0;        // documents
  int64_t dropped = 0;        // documents
  int64_t dropped_bytes = 0;  // of the dropped documents, as they stood before the step
};

struct CleanCounts {
  std::array<StepCount, kCleanSteps> steps{};
  StepCount& of(CleanStep step) { return steps[static_cast<size_t>(step)]; }
  void add(const CleanCounts& other);
  nlohmann::json to_json() const;
  static CleanCounts from_json(const nlohmann::json& json);  ///< Errors DataError
};

/// The steps of [clean] for the documents of one source, in the order of the deck's reference; the
/// first filter that drops a document is the one that counts it. All thresholds are inclusive: a
/// document at the limit stays.
///   normalise, remove_control      see normalise.hpp
///   min_characters, max_characters code points; a broken sequence of UTF-8 is one
///   max_symbol_ratio               share of the characters that are neither letter, mark, number,
///                                  white space nor a joiner (U+200C, U+200D); broken ones are
///                                  symbols
///   max_repeated_lines             share of the lines with text that stood before in the document,
///                                  without blanks at their ends
///   min_script_share               share of the letters (of any script but Common and Inherited)
///                                  that are in the scripts of the language (language_scripts.hpp);
///                                  a document without letters stays: the step has nothing to judge
/// Errors    DeckError for a language without known scripts where min_script_share asks for one
class Cleaner {
 public:
  Cleaner(const CleanConfig& config, const SourceConfig& source);
  ~Cleaner();
  Cleaner(const Cleaner&) = delete;
  Cleaner& operator=(const Cleaner&) = delete;

  /// Cleans `text` in place; false if a filter drops it. Text that is not UTF-8 goes through byte
  /// for byte where a step does not understand it.
  bool clean(std::string& text, CleanCounts& counts);

  /// Whether min_script_share is asked for but cannot judge this source, since its language is not
  /// known (empty or "und"): the caller says so once.
  static bool skips_script_share(const CleanConfig& config, const SourceConfig& source);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
