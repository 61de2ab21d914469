// SPDX-License-Identifier: Apache-2.0
// The state that espalier bench checkpoint writes, and the timing of what all ranks do together.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/model_file.hpp"
#include "commands/spmd_context.hpp"

namespace espalier {

struct CheckpointBench {
  std::string deck;  // empty: made-up tensors
  std::vector<std::string> overrides;
  std::string folder = ".";
  int64_t mib = 256, repeats = 5;  // mib: a rank, of made-up tensors
  std::string transfer = "automatic", layout = "contiguous";
  double piece_mib = 1, alignment_kib = 4;
  std::vector<std::string> hints;
};

/// What a rank writes: the same slabs of the same rows in each group.
struct BenchState {
  std::vector<std::string> groups;
  std::vector<TensorRow> rows;
  std::vector<float> buffer;
  TensorSlabs slabs;  // into buffer, one behind the other in no certain order
  int64_t bytes = 0;  // of this rank, all groups
  int64_t total = 0;  // of all ranks
  int64_t first = 0;  // bytes of the ranks before this one
};

/// Parameters and both moments of a deck, where its grid holds them.
BenchState make_deck_state(const Launch& launch);
/// Layers with weights cut by rows, by columns, and vectors, `mib` a rank.
BenchState make_sample_state(const Comm& world, int64_t mib);

/// Seconds from a barrier until the last rank is done. Collective.
double time_together(const Comm& world, const std::function<void()>& action);

}  // namespace espalier
