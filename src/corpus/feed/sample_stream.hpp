// SPDX-License-Identifier: Apache-2.0
// The endless training stream: which sample of which source stands at a raw position.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "corpus/data_order.hpp"
#include "corpus/feed/mixture.hpp"
#include "corpus/feed/sample_sources.hpp"

namespace espalier {

/// Sources as one row of samples, and as the stream that is drawn from them.
/// Merged (no stages), position p holds sample DataOrder(seed)(p) of the row. Mixed, it holds the
/// source and the number n that Mixture gives, and of that source the sample DataOrder(key of seed
/// and the source's name)(n): what other sources there are changes nothing in a source's order.
/// An endless source is not reordered. Thread-safe but for begin and resume.
class SampleStream {
 public:
  SampleStream(uint64_t seed, std::vector<SampleSource> sources, std::vector<MixtureStage> stages);

  /// Raw position with which a step (from 0) begins.
  using PositionOf = std::function<int64_t(int64_t step)>;
  /// The stream from position 0 on.
  void begin(const PositionOf& position_of);
  /// The stream from `step` on, which begins at `position`: where the deck's quotas are those of
  /// the state, its phase goes on without a seam; else a new one begins, and each source goes on
  /// behind what was taken of it.
  /// Errors    DataError for a state from behind the position
  /// Warns     if the checkpoint mixed and the deck does not, or the reverse
  void resume(int64_t step, int64_t position, const MixtureState& state,
              const PositionOf& position_of);

  struct Place {
    size_t source = 0;
    int64_t sample = 0;  // of the source's set
  };
  Place at(int64_t position) const;    ///< in the stream
  Place in_row(int64_t sample) const;  ///< source by source, in order

  bool is_mixed() const { return mixture_.has_value(); }
  bool is_endless() const { return samples_ == TokenWindows::kEndless; }
  int64_t samples() const { return samples_; }  ///< in the row
  int64_t tokens() const;
  const std::vector<SampleSource>& sources() const { return sources_; }
  const SampleSet& set(const Place& place) const { return *sources_[place.source].samples; }

  /// Empty unless mixed.
  MixtureState state_at(int64_t position) const;
  /// Share of each source of the positions around this one.
  std::vector<double> shares_at(int64_t position) const;
  /// Passes over each source up to this position.
  std::vector<double> epochs_before(int64_t position) const;

 private:
  std::vector<std::string> names() const;
  const std::vector<int64_t>& quota_of(int64_t step) const;
  void add_later_stages(int64_t step, const PositionOf& position_of);

  uint64_t seed_;
  std::vector<SampleSource> sources_;
  std::vector<MixtureStage> stages_;
  std::vector<int64_t> first_{0};  // first sample of each source in the row
  int64_t samples_ = 0;
  std::optional<DataOrder> order_;        // merged
  std::vector<DataOrder> source_orders_;  // mixed; of an empty source never used
  std::optional<Mixture> mixture_;
};

}  // namespace espalier
