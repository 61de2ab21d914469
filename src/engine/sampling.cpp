// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {

int32_t sample_token(const std::vector<float>& logits, const SamplingOptions& options,
                     uint64_t index) {
  ESPALIER_REQUIRE(!logits.empty(), "no logits to sample from");
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  if (options.temperature <= 0.0) return *std::min_element(order.begin(), order.end(), likelier);
  std::sort(order.begin(), order.end(), likelier);
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size()))
    order.resize(options.top_k);

  std::vector<double> weight(order.size());
  const double greatest = logits[order.front()];
  for (size_t i = 0; i < order.size(); ++i)
    weight[i] = std::exp((logits[order[i]] - greatest) / options.temperature);
  const double whole = std::accumulate(weight.begin(), weight.end(), 0.0);
  size_t kept = 0;
  double sum = 0.0;
  while (kept < weight.size() && (kept == 0 || sum < options.top_p * whole)) sum += weight[kept++];

  double target = random_uniform(options.seed, hash_name("generate"), index) * sum;
  for (size_t i = 0; i + 1 < kept; ++i) {
    target -= weight[i];
    if (target < 0.0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace espalier
