// SPDX-License-Identifier: Apache-2.0
// Rules of the section data: weights, curriculum and skipped positions.
#include <fmt/format.h>

#include <algorithm>

#include "deck/draft.hpp"
#include "deck/mixture_text.hpp"

namespace espalier {
namespace {

const char* const kWeightForm = "write \"NAME = WEIGHT\" for each source, like \"web = 0.7\"";
const char* const kStageForm = "write \"STEP: NAME = WEIGHT, NAME = WEIGHT\" with every source";

std::vector<std::string> names_of(const std::vector<SourceWeight>& weights) {
  std::vector<std::string> names;
  for (const SourceWeight& weight : weights) names.push_back(weight.name);
  std::sort(names.begin(), names.end());
  return names;
}

// The names in data.weights, sorted; empty where nothing can be said.
std::vector<std::string> check_weights(Draft& draft) {
  const std::vector<std::string>& items = draft.config.data.weights;
  if (!draft.are_sound({"data.weights"}) || items.empty()) return {};
  const auto read = read_weights(items);
  if (read.fault.empty()) return names_of(read.value);
  draft.fault("data.weights", read.fault, kWeightForm);
  return {};
}

void check_curriculum(Draft& draft, std::vector<std::string> names) {
  if (!draft.are_sound({"data.curriculum"})) return;
  std::string named_by = "data.weights";
  int64_t before = 0;
  const std::vector<std::string>& items = draft.config.data.curriculum;
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string which = fmt::format("item {}", i + 1);
    const auto fault = [&](const std::string& rule, const std::string& suggestion) {
      draft.fault("data.curriculum", fmt::format("{} {}", which, rule), suggestion);
    };
    const auto read = read_stage(items[i]);
    if (!read.fault.empty()) {
      const bool is_whole = read.fault.rfind("begins", 0) == 0 || read.fault.rfind("does", 0) == 0;
      return fault(is_whole ? read.fault : "is wrong: " + read.fault, kStageForm);
    }
    if (read.value.step <= before)
      return fault(fmt::format("begins at step {}, which is not behind step {} of the one before",
                               read.value.step, before),
                   "list them by their steps");
    before = read.value.step;
    const std::vector<std::string> own = names_of(read.value.weights);
    if (!names.empty() && own != names)
      return fault(fmt::format("names {}, but {} names {}", fmt::join(own, ", "), named_by,
                               fmt::join(names, ", ")),
                   "name every source everywhere; weight 0 leaves one out");
    names = own;
    named_by = which;
  }
  if (draft.are_sound({"run.steps"}) && before > draft.config.run.steps)
    draft.warn("data.curriculum",
               fmt::format("item {} without effect: it begins at step {}, run.{}", items.size(),
                           before, draft.equation("run.steps")),
               "");
}

void check_skip(Draft& draft) {
  if (!draft.are_sound({"data.skip"})) return;
  const std::vector<IntegerRange>& ranges = draft.config.data.skip;
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i][0] >= ranges[i - 1][1]) continue;
    draft.fault("data.skip",
                fmt::format("item {} begins at {}, before the end {} of the one before", i + 1,
                            ranges[i][0], ranges[i - 1][1]),
                "list ranges by their place, each behind the end of the one before");
    return;
  }
}

}  // namespace

void check_data(Draft& draft) {
  check_curriculum(draft, check_weights(draft));
  check_skip(draft);
}

}  // namespace espalier
