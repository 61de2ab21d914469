// SPDX-License-Identifier: Apache-2.0
// The parameter table: every trainable tensor of which a rank holds a part, with its name, global
// shape, sharding, initialiser, weight decay and place in the flat buffers. Builder, checkpoint,
// optimizer and exporter read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "blueprint/tensor_split.hpp"
#include "deck/config.hpp"

namespace espalier {

enum class Initializer { normal, ones, zeros };
enum class ParameterRole { weight, bias, norm, embedding };
enum class Split { none, rows, columns };  // rows: the first dimension

/// A run of rows or columns of the global tensor; all of it where nothing is cut.
struct ShardPiece {
  int64_t global_first = 0, count = 0;
  int64_t local_first = 0;  // row or column of the local tensor
  /// Elements, along the local tensor's last dimension, that every layout holds together: what the
  /// gradient norm adds up before anything crosses a layout's borders.
  int64_t cell = 0;
  /// False where a tensor-parallel neighbour of a lower rank, or the first stage, has it as well:
  /// what is summed or written once is summed or written by the others.
  bool counts = true;
};

/// One logical tensor. Weights are [out, in]: y = x W^T + b.
struct ParameterSpec {
  std::string name;            // also the view's label, the HDF5 name and the metric key
  std::vector<int64_t> shape;  // global
  Split split = Split::none;
  std::vector<ShardPiece> pieces;
  Initializer initializer = Initializer::zeros;
  double init_std = 0.0;  // of Initializer::normal
  ParameterRole role = ParameterRole::weight;
  bool decay = false;    // weight decay applies
  bool is_copy = false;  // the output's copy of a tied token table: named like the table
  int64_t offset = 0;    // first element in this rank's flat buffers
  /// Of its first element among all elements of the model: for random numbers. A multiple of
  /// kParameterAlignment; a tied copy's are those of the table.
  int64_t number = 0;
  int64_t rows() const;  // of the local tensor; 1 for a vector
  int64_t columns() const;
  int64_t size() const { return rows() * columns(); }  // elements on this rank
  int64_t global_size() const;
};

enum class BlockKind { token, position, layer, final_norm, output };

/// A contiguous part of the flat buffers that is ready, reduced and gathered as one.
struct BlockSpan {
  std::string name;
  BlockKind kind = BlockKind::layer;
  int64_t layer = -1;
  int64_t chunk = 0;  // of this rank
  int64_t offset = 0;
  int64_t size = 0;  // elements, padding included
};

/// The layers of one stage of the pipeline, in order.
struct StageRange {
  int64_t first = 0, last = 0;
};

/// Which part of the model a rank holds.
struct ModelPlace {
  TensorSplit split;
  std::vector<StageRange> stages = {};  // all stages of the model in order; empty: one with all
  int64_t pipeline_ranks = 1, pipeline_rank = 0;  // stage g is chunk g / ranks of rank g % ranks
};

struct ParameterTable {
  std::vector<ParameterSpec> parameters;  // in flat order
  std::vector<BlockSpan> blocks;          // in the order of the forward pass
  int64_t flat_size = 0;                  // elements on this rank, padding included
  int64_t parameter_count = 0;            // elements of the whole model

  /// The first row of that name. Throws InternalError when there is none.
  const ParameterSpec& find(const std::string& name) const;
  bool contains(const std::string& name) const;
};

/// Every tensor starts at a multiple of this many elements (a cache line of fp32).
constexpr int64_t kParameterAlignment = 16;

/// The whole model, as one rank alone holds it in the fast mode.
ParameterTable make_parameter_table(const Config& config);
/// What one rank holds.
ParameterTable make_parameter_table(const Config& config, const ModelPlace& place);

/// Whether the output holds a copy of the tied token table, with a gradient of its own: where the
/// two stand on different stages, and in the reproducible mode everywhere.
bool has_tied_copy(const Config& config);

}  // namespace espalier
