// SPDX-License-Identifier: Apache-2.0
// A gradient dump as tests use it: the model, one global batch, parameters, loss and gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/blueprint.hpp"

namespace espalier {

struct GoldenCase {
  Config config;        // of the dump's deck; its model is also that of the attributes
  Blueprint blueprint;  // of config on one rank, the whole batch as one micro-batch
  int64_t sequences = 0, length = 0;
  std::vector<int32_t> inputs, targets, positions, document_start;  // [sequences, length]
  std::vector<float> parameters, gradients;  // flat, by the offsets of blueprint.parameters
  double loss = 0;
  int64_t valid_tokens = 0;  // targets >= 0

  /// Of one tensor in a flat buffer of this case.
  std::vector<double> values(const std::vector<float>& flat, const ParameterSpec& tensor) const;
};

/// Reads and checks everything. Throws DataError, among others when the deck and the attributes of
/// the dump disagree about the model or token ids are outside the vocabulary.
GoldenCase load_golden_case(const std::string& path);

}  // namespace espalier
