// SPDX-License-Identifier: Apache-2.0
// Merged and mixed streams.
#include "corpus/feed/sample_stream.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/random.hpp"

namespace espalier {

SampleStream::SampleStream(uint64_t seed, std::vector<SampleSource> sources,
                           std::vector<MixtureStage> stages)
    : seed_(seed), sources_(std::move(sources)), stages_(std::move(stages)) {
  ESPALIER_REQUIRE(!sources_.empty(), "a stream of no source");
  if (sources_.front().samples->samples() == TokenWindows::kEndless) {
    ESPALIER_REQUIRE(sources_.size() == 1, "an endless source of {}", sources_.size());
    samples_ = TokenWindows::kEndless;
    return;
  }
  for (const SampleSource& source : sources_) {
    samples_ += source.samples->samples();
    first_.push_back(samples_);
  }
  if (samples_ == 0)
    throw DataError(
        fmt::format("data.train and data.validation: the tokens of {} fill no sequence; give more "
                    "text, or make batch.seq_length smaller",
                    fmt::join(names(), ", ")));
  if (stages_.empty()) {
    order_.emplace(seed_, samples_);
    return;
  }
  mixture_.emplace(seed_, names());
  for (const SampleSource& source : sources_)
    source_orders_.emplace_back(
        random_bits(seed_, hash_name("data.source"), hash_name(source.name)),
        std::max<int64_t>(1, source.samples->samples()));
}

std::vector<std::string> SampleStream::names() const {
  std::vector<std::string> names;
  for (const SampleSource& source : sources_) names.push_back(source.name);
  return names;
}

const std::vector<int64_t>& SampleStream::quota_of(int64_t step) const {
  const auto after =
      std::upper_bound(stages_.begin(), stages_.end(), step,
                       [](int64_t value, const MixtureStage& stage) { return value < stage.step; });
  ESPALIER_REQUIRE(after != stages_.begin(), "step {} is before the first weights", step);
  return (after - 1)->quota;
}

void SampleStream::add_later_stages(int64_t step, const PositionOf& position_of) {
  for (const MixtureStage& stage : stages_)
    if (stage.step > step) mixture_->change(position_of(stage.step), stage.quota);
}

void SampleStream::begin(const PositionOf& position_of) {
  if (!mixture_) return;
  mixture_->start(0, quota_of(0));
  add_later_stages(0, position_of);
}

void SampleStream::resume(int64_t step, int64_t position, const MixtureState& state,
                          const PositionOf& position_of) {
  if (!mixture_) {
    if (!state.names.empty() && !is_endless())
      warn(
          "the run so far mixed its sources by weights, this deck does not: the stream goes on in "
          "the order of the merged sources, and some text comes again before all was seen");
    return;
  }
  const std::vector<int64_t>& quota = quota_of(step);
  std::vector<int64_t> base(sources_.size(), 0);
  if (state.names.empty()) {
    if (position > 0)
      warn(
          "the run so far did not mix its sources by weights: each source begins anew, and some "
          "text comes again before all was seen");
  } else if (state.phase_start > position) {
    throw DataError(fmt::format(
        "the checkpoint's data mixture begins at position {}, behind its position {}; use an older "
        "checkpoint",
        state.phase_start, position));
  } else if (state.names == names() && state.quota == quota) {
    mixture_->resume(state);
    add_later_stages(step, position_of);
    return;
  } else {
    Mixture before(seed_, state.names);
    before.resume(state);
    const std::vector<int64_t> taken = before.taken_before(position);
    std::map<std::string, int64_t> by_name;
    for (size_t s = 0; s < taken.size(); ++s) by_name[state.names[s]] = taken[s];
    for (size_t s = 0; s < sources_.size(); ++s) {
      const auto known = by_name.find(sources_[s].name);
      if (known != by_name.end()) base[s] = known->second;
    }
  }
  mixture_->resume({position, names(), std::move(base), quota});
  add_later_stages(step, position_of);
}

SampleStream::Place SampleStream::in_row(int64_t sample) const {
  if (is_endless()) return {0, sample};
  ESPALIER_REQUIRE(sample >= 0 && sample < samples_, "sample {} of {}", sample, samples_);
  const auto after = std::upper_bound(first_.begin(), first_.end(), sample);
  const auto source = static_cast<size_t>(after - first_.begin()) - 1;
  return {source, sample - first_[source]};
}

SampleStream::Place SampleStream::at(int64_t position) const {
  if (!mixture_) return in_row(order_ ? (*order_)(position) : position);
  const Mixture::Place place = mixture_->at(position);
  const auto source = static_cast<size_t>(place.source);
  return {source, source_orders_[source](place.sample)};
}

int64_t SampleStream::tokens() const {
  if (is_endless()) return TokenWindows::kEndless;
  int64_t sum = 0;
  for (const SampleSource& source : sources_) sum += source.tokens;
  return sum;
}

MixtureState SampleStream::state_at(int64_t position) const {
  return mixture_ ? mixture_->state_at(position) : MixtureState{};
}

std::vector<double> SampleStream::shares_at(int64_t position) const {
  if (is_endless()) return {1.0};
  std::vector<double> shares;
  if (!mixture_) {
    for (const SampleSource& source : sources_)
      shares.push_back(static_cast<double>(source.samples->samples()) /
                       static_cast<double>(samples_));
  } else {
    for (const int64_t quota : mixture_->state_at(position).quota)
      shares.push_back(static_cast<double>(quota) / static_cast<double>(kMixtureBlock));
  }
  return shares;
}

std::vector<double> SampleStream::epochs_before(int64_t position) const {
  if (is_endless()) return {0.0};
  if (!mixture_) {
    std::vector<double> epochs;
    for (const SampleSource& source : sources_)
      epochs.push_back(source.samples->samples() == 0
                           ? 0.0
                           : static_cast<double>(position) / static_cast<double>(samples_));
    return epochs;
  }
  const std::vector<int64_t> taken = mixture_->taken_before(position);
  std::vector<double> epochs;
  for (size_t s = 0; s < sources_.size(); ++s)
    epochs.push_back(taken[s] == 0 ? 0.0
                                   : static_cast<double>(taken[s]) /
                                         static_cast<double>(sources_[s].samples->samples()));
  return epochs;
}

}  // namespace espalier
