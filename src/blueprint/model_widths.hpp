// SPDX-License-Identifier: Apache-2.0
// Widths of a block's matrices that follow from the model's keys.
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace espalier {

/// Columns of all query heads, and of all heads that queries, keys and values have together.
inline int64_t query_width(const ModelConfig& m) {
  return m.num_heads * m.head_dim;
}
inline int64_t qkv_width(const ModelConfig& m) {
  return (m.num_heads + 2 * m.num_kv_heads) * m.head_dim;
}

/// Columns of the MLP's first linear layer: gate and value for swiglu.
inline int64_t up_width(const ModelConfig& m) {
  return m.activation == Activation::swiglu ? 2 * m.intermediate_size : m.intermediate_size;
}

}  // namespace espalier
