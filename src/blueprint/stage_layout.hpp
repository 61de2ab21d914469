// SPDX-License-Identifier: Apache-2.0
// Which blocks of the model each stage of the pipeline holds: as listed, evenly, or so that the
// slowest rank has the least to do.
#pragma once

#include <cstdint>
#include <vector>

#include "blueprint/parameter_table.hpp"
#include "deck/config.hpp"

namespace espalier {

/// What the parts of the model cost, forward and backward, in any one unit. The head is the final
/// norm, the output projection and the loss.
struct ModelCosts {
  std::vector<double> layers;
  double embedding = 0, head = 0;
};

/// Flops of one token, recomputation included. Of the lookup, the final norm and the loss the
/// elements count that they go through.
ModelCosts model_costs(const Config& config);

/// Times of the stages in an earlier run: seconds of one micro-batch by global stage (forward and
/// backward) and the layers that each stage had.
struct MeasuredStages {
  std::vector<double> seconds;
  std::vector<StageRange> ranges;
};

/// Seconds of the parts of the model from those of the stages: layers of a stage share its time;
/// what the last stage takes beyond its layers, at the pace of the other stages, is the head's.
/// With one stage the flops decide. Throws DataError when the times are not those of this model.
ModelCosts measured_costs(const Config& config, const MeasuredStages& measured);

/// The stages of the model in order, each with at least one layer. The deck decides how:
/// grid.stage_blocks, or grid.stage_balance. `layer_seconds` (one a layer), `embedding_seconds` and
/// `head_seconds` are for stage_balance = "measured", which throws InternalError without them.
std::vector<StageRange> stage_ranges(const Config& config,
                                     const std::vector<double>& layer_seconds = {},
                                     double embedding_seconds = 0, double head_seconds = 0);

/// Contiguous stages of at least one layer so that the most that a rank has to do (over all its
/// chunks) is least; among those the one with the least sum of squares. Exact with one chunk a rank
/// (dynamic programming) and for equal layers; else a descent by moves of single layers.
std::vector<StageRange> balanced_ranges(const ModelCosts& costs, int64_t ranks, int64_t chunks);

/// Cost of each stage, embedding and head included; and of each rank over its chunks.
std::vector<double> stage_costs(const ModelCosts& costs, const std::vector<StageRange>& ranges);
std::vector<double> rank_costs(const ModelCosts& costs, const std::vector<StageRange>& ranges,
                               int64_t ranks);

}  // namespace espalier
