// SPDX-License-Identifier: Apache-2.0
// The parameter table: every trainable tensor of a model with its name, global shape, initialiser,
// weight decay and place in the flat buffers. Builder, checkpoint, optimizer and exporter read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

enum class Initializer { normal, ones, zeros };
enum class ParameterRole { weight, bias, norm, embedding };

/// One logical tensor. Weights are [out, in]: y = x W^T + b.
struct ParameterSpec {
  std::string name;  // also the view's label, the HDF5 name and the metric key
  std::vector<int64_t> shape;
  Initializer initializer = Initializer::zeros;
  double init_std = 0.0;  // of Initializer::normal
  ParameterRole role = ParameterRole::weight;
  bool decay = false;    // weight decay applies
  int64_t offset = 0;    // first element in the flat buffers
  int64_t size() const;  // elements
};

/// A contiguous part of the flat buffers that is ready, reduced and gathered as one: the embedding,
/// each transformer block, the head.
struct BlockSpan {
  std::string name;
  int64_t offset = 0;
  int64_t size = 0;  // elements, padding included
};

struct ParameterTable {
  std::vector<ParameterSpec> parameters;  // in flat order: embedding, blocks, head
  std::vector<BlockSpan> blocks;          // embedding, layers.0 ... layers.N-1, head
  int64_t flat_size = 0;                  // elements, padding included
  int64_t parameter_count = 0;            // elements, padding not included

  /// The row of that name. Throws InternalError when there is none.
  const ParameterSpec& find(const std::string& name) const;
  bool contains(const std::string& name) const;
};

/// Every tensor starts at a multiple of this many elements (a cache line of fp32).
constexpr int64_t kParameterAlignment = 16;

ParameterTable make_parameter_table(const Config& config);

}  // namespace espalier
