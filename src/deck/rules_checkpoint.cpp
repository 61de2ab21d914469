// SPDX-License-Identifier: Apache-2.0
// Rules of the section checkpoint: when to save, which checkpoints stay, hints for MPI-IO.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "deck/draft.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostSteps = 1000000000;  // as in the key table
constexpr int64_t kLeastAlignment = 512;    // bytes, one sector
constexpr size_t kLongestHintKey = 255;     // letters; MPI_MAX_INFO_KEY of MPICH and Open MPI
constexpr size_t kLongestHintValue = 255;   // letters; MPI_MAX_INFO_VAL is 256 in Open MPI

void check_failures(Draft& draft) {
  const char* name = "checkpoint.mean_time_between_failures";
  if (!draft.are_sound({name, "checkpoint.interval_rule"})) return;
  const CheckpointConfig& checkpoint = draft.config.checkpoint;
  if (checkpoint.interval_rule != IntervalRule::young_daly ||
      checkpoint.mean_time_between_failures > 0.0)
    return;
  const std::string why = draft.equation("checkpoint.interval_rule") + " needs it";
  const char* remedy = "give it in seconds, or interval_rule = \"fixed\"";
  if (draft.is_explicit(name))
    draft.fault(name, why, remedy);
  else
    draft.missing(name, why, remedy, {"checkpoint.interval_rule"});
}

void check_kept(Draft& draft) {
  if (!draft.are_sound(
          {"checkpoint.keep_every", "checkpoint.interval", "checkpoint.interval_rule"}))
    return;
  const CheckpointConfig& checkpoint = draft.config.checkpoint;
  const int64_t interval = checkpoint.interval, every = checkpoint.keep_every;
  if (checkpoint.interval_rule != IntervalRule::fixed || interval == 0 || every % interval == 0)
    return;
  const int64_t below = every / interval * interval, above = below + interval;
  const std::string suggestion = below == 0            ? fmt::format("try {}", above)
                                 : above <= kMostSteps ? fmt::format("try {} or {}", below, above)
                                                       : fmt::format("try {}", below);
  draft.fault("checkpoint.keep_every",
              fmt::format("not a multiple of {}, so no checkpoint is made at that step",
                          draft.equation("checkpoint.interval")),
              suggestion, {"checkpoint.interval"});
}

void check_alignment(Draft& draft) {
  if (!draft.are_sound({"checkpoint.alignment"})) return;
  const int64_t bytes = draft.config.checkpoint.alignment;
  if (bytes == 0 || (bytes >= kLeastAlignment && (bytes & (bytes - 1)) == 0)) return;
  int64_t below = kLeastAlignment;
  while (below * 2 <= bytes) below *= 2;
  draft.fault("checkpoint.alignment", "must be 0 or a power of two from 512 on",
              bytes < kLeastAlignment ? std::string("try 0 or 512")
                                      : fmt::format("try {} or {}", below, below * 2));
}

// What is wrong with a hint, or nothing.
std::string hint_fault(const std::string& hint, std::set<std::string>& seen) {
  const size_t equals = hint.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == hint.size())
    return "is not of the form key=value";
  if (hint.find(' ') != std::string::npos) return "has a blank";
  if (equals > kLongestHintKey)
    return fmt::format("has a key of more than {} letters", kLongestHintKey);
  if (hint.size() - equals - 1 > kLongestHintValue)
    return fmt::format("has a value of more than {} letters", kLongestHintValue);
  if (!seen.insert(hint.substr(0, equals)).second)
    return fmt::format("names {} again", hint.substr(0, equals));
  return "";
}

void check_hints(Draft& draft) {
  if (!draft.are_sound({"checkpoint.mpi_info"})) return;
  const std::vector<std::string>& hints = draft.config.checkpoint.mpi_info;
  std::set<std::string> seen;
  for (size_t i = 0; i < hints.size(); ++i) {
    const std::string wrong = hint_fault(hints[i], seen);
    if (wrong.empty()) continue;
    draft.fault("checkpoint.mpi_info", fmt::format("item {} {}", i + 1, wrong),
                "write each hint once, like \"striping_factor=16\"");
    return;
  }
  // Buffering belongs to collective transfers: without them these hints reach nobody.
  if (!draft.are_sound({"checkpoint.transfer"}) ||
      draft.config.checkpoint.transfer != TransferMode::independent)
    return;
  for (const std::string& key : seen)
    if (key.rfind("cb_", 0) == 0 || key.rfind("romio_cb_", 0) == 0) {
      draft.warn("checkpoint.mpi_info",
                 fmt::format("{} without effect: {}", key, draft.equation("checkpoint.transfer")),
                 "");
      return;
    }
}

}  // namespace

void check_checkpoint(Draft& draft) {
  check_failures(draft);
  check_kept(draft);
  check_alignment(draft);
  check_hints(draft);
}

}  // namespace espalier
