// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from its logits.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

struct SamplingOptions {
  double temperature = 1.0;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all; else only the k likeliest
  double top_p = 1.0;        // only the likeliest tokens that together reach this probability
  uint64_t seed = 1;
};

/// Token `index` of the text generated with these options: a pure function of its arguments. Ties
/// go to the lower id. At least one token always remains.
int32_t sample_token(const std::vector<float>& logits, const SamplingOptions& options,
                     uint64_t index);

}  // namespace espalier
