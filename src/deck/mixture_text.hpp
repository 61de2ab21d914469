// SPDX-License-Identifier: Apache-2.0
// The texts of data.weights and data.curriculum taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

struct SourceWeight {
  std::string name;
  double weight = 0.0;  // finite, >= 0
};

/// Weights from a step on. Steps count from 1, as in the log.
struct CurriculumStage {
  int64_t step = 0;
  std::vector<SourceWeight> weights;
};

/// What was read, or in `fault` what is wrong with it ("names web again").
template <class T>
struct ReadText {
  T value;
  std::string fault;
};

/// "NAME = WEIGHT" items; each name once, at least one weight above 0.
ReadText<std::vector<SourceWeight>> read_weights(const std::vector<std::string>& items);
/// "STEP: NAME = WEIGHT, NAME = WEIGHT"
ReadText<CurriculumStage> read_stage(const std::string& item);

}  // namespace espalier
