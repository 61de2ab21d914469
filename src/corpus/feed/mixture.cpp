// SPDX-License-Identifier: Apache-2.0
// Phases, blocks and the shuffle of a block.
#include "corpus/feed/mixture.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

constexpr size_t kRecentBlocks = 8;  // prefetch threads work on neighbouring steps

// floor(bits / 2^64 * n): as even as 64 random bits allow.
uint64_t below(uint64_t bits, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * n) >> 64);
}

}  // namespace

std::vector<int64_t> mixture_quotas(const std::vector<double>& weights) {
  double sum = 0.0;
  for (const double w : weights) {
    ESPALIER_REQUIRE(w >= 0.0, "a weight of {}", w);
    sum += w;
  }
  ESPALIER_REQUIRE(sum > 0.0 && static_cast<int64_t>(weights.size()) <= kMixtureBlock,
                   "weights of {} sources with the sum {}", weights.size(), sum);
  std::vector<int64_t> quota;
  std::vector<double> wanted;
  for (const double w : weights) {
    wanted.push_back(w / sum * static_cast<double>(kMixtureBlock));
    const auto whole = static_cast<int64_t>(wanted.back());
    quota.push_back(w > 0.0 ? std::max<int64_t>(1, whole) : 0);
  }
  int64_t left = kMixtureBlock - std::accumulate(quota.begin(), quota.end(), int64_t{0});
  // Who lacks most gets one; who was lifted to 1 is paid for by those that have most to spare.
  const auto lack = [&](size_t s) { return wanted[s] - static_cast<double>(quota[s]); };
  while (left != 0) {
    size_t best = weights.size();
    for (size_t s = 0; s < weights.size(); ++s) {
      if (weights[s] == 0.0 || (left < 0 && quota[s] <= 1)) continue;
      if (best == weights.size() || (left > 0 ? lack(s) > lack(best) : lack(s) < lack(best)))
        best = s;
    }
    quota[best] += left > 0 ? 1 : -1;
    left += left > 0 ? -1 : 1;
  }
  return quota;
}

Mixture::Mixture(uint64_t seed, std::vector<std::string> names)
    : seed_(seed), names_(std::move(names)) {}

void Mixture::start(int64_t position, std::vector<int64_t> quota) {
  resume({position, names_, std::vector<int64_t>(names_.size(), 0), std::move(quota)});
}

void Mixture::resume(const MixtureState& state) {
  ESPALIER_REQUIRE(state.names == names_ && state.base.size() == names_.size() &&
                       state.quota.size() == names_.size() && state.phase_start >= 0,
                   "a mixture of {} sources at position {} for {}", state.names.size(),
                   state.phase_start, names_.size());
  ESPALIER_REQUIRE(
      std::accumulate(state.quota.begin(), state.quota.end(), int64_t{0}) == kMixtureBlock,
      "quotas do not fill a block");
  const std::lock_guard<std::mutex> lock(mutex_);
  recent_.clear();
  phases_ = {{state.phase_start, state.base, state.quota}};
}

void Mixture::change(int64_t position, std::vector<int64_t> quota) {
  ESPALIER_REQUIRE(!phases_.empty() && position >= phases_.back().start, "position {}", position);
  if (phases_.back().quota == quota) return;
  std::vector<int64_t> base = taken(phases_.back(), position);
  if (position == phases_.back().start) phases_.pop_back();
  phases_.push_back({position, std::move(base), std::move(quota)});
  const std::lock_guard<std::mutex> lock(mutex_);
  recent_.clear();
}

const Mixture::Phase& Mixture::phase_of(int64_t position) const {
  const auto after =
      std::upper_bound(phases_.begin(), phases_.end(), position,
                       [](int64_t value, const Phase& phase) { return value < phase.start; });
  ESPALIER_REQUIRE(after != phases_.begin(), "position {} is before the first phase", position);
  return *(after - 1);
}

std::shared_ptr<const Mixture::Block> Mixture::block(const Phase& phase, int64_t first) const {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto known = recent_.rbegin(); known != recent_.rend(); ++known)
      if ((*known)->first == first) return *known;
  }
  auto made = std::make_shared<Block>();
  made->first = first;
  for (size_t s = 0; s < phase.quota.size(); ++s)
    made->source.insert(made->source.end(), static_cast<size_t>(phase.quota[s]),
                        static_cast<uint32_t>(s));
  const uint64_t key = random_bits(seed_, hash_name("data.mixture"), static_cast<uint64_t>(first));
  // Fisher and Yates, from the back, as in Knuth, TAOCP 2, 3.4.2, algorithm P.
  for (uint64_t i = made->source.size() - 1; i > 0; --i)
    std::swap(made->source[i], made->source[below(random_bits(key, 0, i), i + 1)]);
  std::vector<uint32_t> seen(phase.quota.size(), 0);
  made->rank.reserve(made->source.size());
  for (const uint32_t s : made->source) made->rank.push_back(seen[s]++);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (recent_.size() >= kRecentBlocks) recent_.erase(recent_.begin());
  recent_.push_back(made);
  return made;
}

Mixture::Place Mixture::at(int64_t position) const {
  const Phase& phase = phase_of(position);
  const int64_t number = (position - phase.start) / kMixtureBlock;
  const int64_t first = phase.start + number * kMixtureBlock;
  const auto places = block(phase, first);
  const auto i = static_cast<size_t>(position - first);
  const size_t s = places->source[i];
  return {static_cast<int64_t>(s), phase.base[s] + number * phase.quota[s] + places->rank[i]};
}

MixtureState Mixture::state_at(int64_t position) const {
  const Phase& phase = phase_of(position);
  return {phase.start, names_, phase.base, phase.quota};
}

std::vector<int64_t> Mixture::taken(const Phase& phase, int64_t position) const {
  const int64_t number = (position - phase.start) / kMixtureBlock;
  std::vector<int64_t> sum = phase.base;
  for (size_t s = 0; s < sum.size(); ++s) sum[s] += number * phase.quota[s];
  const int64_t first = phase.start + number * kMixtureBlock;
  if (position == first) return sum;
  const auto places = block(phase, first);
  for (size_t i = 0; i < static_cast<size_t>(position - first); ++i) ++sum[places->source[i]];
  return sum;
}

std::vector<int64_t> Mixture::taken_before(int64_t position) const {
  return taken(phase_of(position), position);
}

}  // namespace espalier
