// SPDX-License-Identifier: Apache-2.0
// Which activations a micro-batch keeps for its backward pass and which scratch the stage needs:
// the engine carves its arena by this list, and the memory bill adds it up, so they cannot differ.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/tensor_split.hpp"
#include "core/element_type.hpp"
#include "deck/config.hpp"

namespace espalier {

/// What a tensor of the plan is made of: the compute type, or the type sums are kept in (fp32, or
/// fp64 when computing in fp64), or indices.
enum class Storage { compute, accumulate, index, wide_index };

struct PlannedTensor {
  std::string name;
  int64_t rows = 0, columns = 0;
  Storage storage = Storage::compute;
};

/// The tensors of one block of one micro-batch.
struct BlockPlan {
  std::vector<PlannedTensor> kept;        // from forward to backward
  std::vector<PlannedTensor> recomputed;  // one set for all blocks of a stage
};

struct ActivationPlan {
  std::vector<PlannedTensor> input;  // once a micro-batch in flight: tokens and what goes with them
  BlockPlan plain;                   // of a block of which nothing is computed again
  BlockPlan recomputed;              // of the others
  std::vector<PlannedTensor> split;  // more, kept where the weight gradients wait
  std::vector<PlannedTensor> head;   // once a micro-batch in flight on the last stage
  std::vector<PlannedTensor> workspace;  // once a stage
  int64_t classifier_rows = 0;           // tokens whose logits exist at the same time
  int64_t tokens = 0;                    // of a micro-batch
  Range own_tokens;                      // of them, this rank's between the products
};

/// Queries and keys of one tile of attention scores.
constexpr int64_t kQueryTile = 64;
constexpr int64_t kKeyTile = 256;
/// Rows over which a norm's parameter gradients are summed before the sums are added up.
constexpr int64_t kNormChunk = 64;

/// Partial sums of a bias gradient on a device, at most.
constexpr int64_t kBiasPartials = 64;

/// Elements of the sum type that one attention call on the host needs as scratch.
int64_t attention_scratch(int64_t seq_length, int64_t head_dim);

/// Partial sums that a binary tree over `leaves` holds at once.
int tree_slots(int64_t leaves);

/// Elements of the norm parameters' gradients of one block, and of those of queries and keys.
struct NormWidths {
  int64_t tokens = 0;  // summed over tokens: complete on every rank unless tokens are cut
  int64_t heads = 0;   // summed over tokens and heads: incomplete wherever heads are cut
  int64_t total() const { return tokens + heads; }
};
NormWidths norm_widths(const ModelConfig& model);

/// Whether a layer's activations are computed again.
bool is_recomputed(const GridConfig& grid, int64_t layer);

ActivationPlan make_activation_plan(const Config& config, const TensorSplit& split);

/// Bytes of one tensor as the arena lays it out: rounded up to kArenaAlignment.
int64_t planned_bytes(const PlannedTensor& tensor, ElementType compute_type);
int64_t planned_bytes(const std::vector<PlannedTensor>& tensors, ElementType compute_type);

constexpr int64_t kArenaAlignment = 64;

}  // namespace espalier
