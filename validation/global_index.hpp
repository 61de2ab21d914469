// SPDX-License-Identifier: Apache-2.0
// Where an element of a rank's tensor stands in the whole one, from the definition of tensor
// parallelism and the tensor's name: what tests compare the parameter table's pieces with.
#pragma once

#include <algorithm>
#include <string>

#include "blueprint/parameter_table.hpp"

namespace espalier::check {

class GlobalIndex {
 public:
  GlobalIndex(const ModelConfig& model, const TensorSplit& split) : m_(model), split_(split) {}

  /// Element [row, column] of the local tensor (a vector has row 0) as index of the row-major
  /// global one.
  int64_t operator()(const ParameterSpec& p, int64_t row, int64_t column) const {
    const bool is_vector = p.shape.size() == 1;
    if (has(p.name, "attention.output.weight"))
      return row * p.shape[1] + first_of(m_.num_heads * m_.head_dim) + column;
    if (has(p.name, "mlp.down.weight"))
      return row * p.shape[1] + first_of(m_.intermediate_size) + column;
    const int64_t unit = is_vector ? column : row;
    const int64_t whole = global_unit(p, unit, is_vector ? p.columns() : p.rows());
    return is_vector ? whole : whole * p.shape[1] + column;
  }

 private:
  static bool has(const std::string& name, const char* part) {
    return name.find(part) != std::string::npos;
  }
  // Every shard has the same number, the last ones fewer.
  int64_t first_of(int64_t count) const {
    const int64_t a_shard = (count + split_.shards - 1) / split_.shards;
    return std::min(count, split_.rank * split_.local_shards() * a_shard);
  }
  // Row of a matrix that is cut by rows, or element of its bias; `count` are here.
  int64_t global_unit(const ParameterSpec& p, int64_t unit, int64_t count) const {
    if (has(p.name, "attention.qkv.")) return qkv_unit(unit, count);
    if (has(p.name, "mlp.gate_up.")) {
      const int64_t half = count / 2;
      return unit / half * m_.intermediate_size + first_of(m_.intermediate_size) + unit % half;
    }
    if (has(p.name, "mlp.up.")) return first_of(m_.intermediate_size) + unit;
    if (has(p.name, "embedding.token.") || p.name.rfind("output.", 0) == 0)
      return first_of(m_.vocab_size) + unit;
    return unit;  // every rank has all of it
  }
  // Query heads are cut by shards; shard s reads the key head that its query heads belong to.
  int64_t qkv_unit(int64_t unit, int64_t count) const {
    const int64_t dim = m_.head_dim, first_shard = split_.rank * split_.local_shards();
    const int64_t queries = m_.num_heads / split_.shards * split_.local_shards() * dim;
    if (unit < queries) return m_.num_heads / split_.shards * first_shard * dim + unit;
    const int64_t keys = (count - queries) / 2, at = (unit - queries) % keys;
    const int64_t section = m_.num_heads + (unit - queries) / keys * m_.num_kv_heads;  // heads
    return (section + first_shard * m_.num_kv_heads / split_.shards) * dim + at;
  }

  const ModelConfig& m_;
  const TensorSplit& split_;
};

}  // namespace espalier::check
