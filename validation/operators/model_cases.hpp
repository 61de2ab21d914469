// SPDX-License-Identifier: Apache-2.0
// The model configurations that the whole-model tests run through.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier::check {

struct ModelCase {
  std::string name;
  Config config;
  int64_t mean_document = 0;
};

void PrintTo(const ModelCase& c, std::ostream* out);

/// Every key that changes the mathematics, in families as they occur and in odd mixtures.
std::vector<ModelCase> named_cases();
/// Those and random ones over all keys.
std::vector<ModelCase> all_cases();

}  // namespace espalier::check
