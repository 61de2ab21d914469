// SPDX-License-Identifier: Apache-2.0
// Which activations a micro-batch keeps for its backward pass and which scratch the stage needs:
// the engine carves its arena by this list, and the memory bill adds it up, so they cannot differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/element_type.hpp"
#include "deck/config.hpp"

namespace espalier {

/// What a tensor of the plan is made of: the compute type, or the type sums are kept in (fp32, or
/// fp64 when computing in fp64), or int32 indices.
enum class Storage { compute, accumulate, index };

struct PlannedTensor {
  std::string name;
  int64_t rows = 0, columns = 0;
  Storage storage = Storage::compute;
};

struct ActivationPlan {
  std::vector<PlannedTensor> input;  // once a micro-batch in flight: tokens and what goes with them
  std::vector<PlannedTensor> block;  // once a block and micro-batch in flight
  std::vector<PlannedTensor> head;   // once a micro-batch in flight
  std::vector<PlannedTensor> workspace;  // once a stage
  int64_t classifier_rows = 0;           // tokens whose logits exist at the same time
};

/// Queries and keys of one tile of attention scores.
constexpr int64_t kQueryTile = 64;
constexpr int64_t kKeyTile = 256;
/// Rows over which a norm's parameter gradients are summed before the sums are added up.
constexpr int64_t kNormChunk = 64;

/// Elements of the sum type that one attention call needs as scratch.
int64_t attention_scratch(int64_t seq_length, int64_t head_dim);

ActivationPlan make_activation_plan(const Config& config);

/// Bytes of one tensor as the arena lays it out: rounded up to kArenaAlignment.
int64_t planned_bytes(const PlannedTensor& tensor, ElementType compute_type);
int64_t planned_bytes(const std::vector<PlannedTensor>& tensors, ElementType compute_type);

constexpr int64_t kArenaAlignment = 64;

}  // namespace espalier
