// SPDX-License-Identifier: Apache-2.0
// Private to this room: the names in a state file, said once for writing and reading.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/state_file.hpp"

namespace espalier {

constexpr const char* kStateFormat = "espalier state";
constexpr int64_t kStateVersion = 1;
constexpr const char* kHistoryGroup = "history";
constexpr const char* kTensorGroups[] = {kParameterGroup, kFirstMomentGroup, kSecondMomentGroup};

inline StoredType type_in_group(const StateTypes& types, const std::string& group) {
  return group == kParameterGroup ? types.parameters : types.moments;
}

inline bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}
/// Whether a dataset is a column of the history.
inline bool is_history(const std::string& dataset) {
  return starts_with(dataset, std::string(kHistoryGroup) + "/");
}

/// An attribute of the file, an integer or a real.
struct ProgressField {
  // By names: nvcc puts parentheses into the plain declarations, of which g++ then complains.
  using Integer = int64_t TrainingProgress::*;
  using Real = double TrainingProgress::*;
  const char* name;
  Integer integer = nullptr;
  Real real = nullptr;
};
const std::vector<ProgressField>& progress_fields();

/// Calls f(name, vector) for the columns of a history, const or not, in the order of the file.
template <class History, class F>
void for_each_column(History& h, const F& f) {
  f("loss", h.loss);
  f("gradient_norm", h.gradient_norm);
  f("learning_rate", h.learning_rate);
  f("loss_scale", h.loss_scale);
  f("skipped", h.skipped);
  f("tokens", h.tokens);
  f("token_hash", h.token_hash);
  f("validation_step", h.validation_step);
  f("validation_loss", h.validation_loss);
  f("validation_tokens", h.validation_tokens);
}

}  // namespace espalier
