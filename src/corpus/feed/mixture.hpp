// SPDX-License-Identifier: Apache-2.0
// Which source a position of the stream takes its sequence from, and which of its samples.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace espalier {

/// Positions of one block: shares are exact in each whole block of a phase.
constexpr int64_t kMixtureBlock = 65536;

/// How a mixture stands: what a checkpoint keeps, so that a run that goes on with another batch
/// size or other weights neither repeats nor misses a sample. Empty names: nothing is mixed.
struct MixtureState {
  int64_t phase_start = 0;         // raw position from which the quotas are in force
  std::vector<std::string> names;  // of the sources
  std::vector<int64_t> base;       // [sources] samples of each taken before phase_start
  std::vector<int64_t> quota;      // [sources] samples of each in a block; their sum is the block
};
bool operator==(const MixtureState& a, const MixtureState& b);

/// One line of JSON, for the checkpoint. "" for an empty state, and back.
std::string encode_mixture(const MixtureState& state);
/// Errors    DataError naming `path` for text that is no sound state
MixtureState decode_mixture(const std::string& text, const std::string& path);

/// Samples of each source in a block of kMixtureBlock positions, in proportion to the weights, by
/// largest remainder; at least 1 where the weight is not 0, 0 where it is.
/// Errors    Internal if no weight is above 0, one is below, or sources outnumber the block
std::vector<int64_t> mixture_quotas(const std::vector<double>& weights);

/// The stream is cut into phases, in each of which the quotas stay, and phases into blocks. In a
/// block, the places of the sources are a shuffle keyed by (seed, "data.mixture", raw position of
/// the block); each source's samples follow each other in the order of its places. So sample
/// numbers of a source run 0, 1, 2, ... through blocks and phases without repeat or gap, wherever a
/// phase ends.
/// Thread-safe but for start, resume and change.
/// Cost      O(1): the place of a block's positions is worked out once (about 1 ms, 512 KiB) and
///           kept for the last few blocks
class Mixture {
 public:
  Mixture(uint64_t seed, std::vector<std::string> names);

  /// The first phase: nothing was taken before.
  void start(int64_t position, std::vector<int64_t> quota);
  /// The first phase goes on as `state` says; its names must be the mixture's.
  void resume(const MixtureState& state);
  /// From `position` on other quotas are in force. Positions ascend; equal quotas change nothing.
  void change(int64_t position, std::vector<int64_t> quota);

  struct Place {
    int64_t source, sample;  // sample: number of the source's samples before this one
  };
  /// Errors    Internal before the first phase
  Place at(int64_t position) const;
  /// The phase that is in force at a position.
  MixtureState state_at(int64_t position) const;
  /// Samples of each source taken from the positions before this one.
  std::vector<int64_t> taken_before(int64_t position) const;

 private:
  struct Phase {
    int64_t start;
    std::vector<int64_t> base, quota;
  };
  struct Block {
    int64_t first;                 // raw position
    std::vector<uint32_t> source;  // [kMixtureBlock]
    std::vector<uint32_t> rank;    // [kMixtureBlock] number of the source's places before this one
  };
  const Phase& phase_of(int64_t position) const;
  std::shared_ptr<const Block> block(const Phase& phase, int64_t first) const;
  std::vector<int64_t> taken(const Phase& phase, int64_t position) const;

  uint64_t seed_;
  std::vector<std::string> names_;
  std::vector<Phase> phases_;
  mutable std::mutex mutex_;                                  // guards the next
  mutable std::vector<std::shared_ptr<const Block>> recent_;  // newest last
};

}  // namespace espalier
