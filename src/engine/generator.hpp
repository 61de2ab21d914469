// SPDX-License-Identifier: Apache-2.0
// Inference one token after the other, with cached keys and values, on one rank.
#pragma once

#include <vector>

#include "blueprint/blueprint.hpp"
#include "engine/parameter_store.hpp"
#include "layers/attention.hpp"
#include "layers/linear.hpp"
#include "layers/norm.hpp"

namespace espalier {

/// Holds one sequence of at most seq_length tokens. T is float or double: a model trained in a
/// 16-bit type is loaded from its fp32 master weights.
template <class T>
class Generator {
 public:
  Generator(const Blueprint& blueprint, const ParameterStore<T>& parameters);

  int64_t capacity() const { return capacity_; }
  int64_t position() const { return position_; }  ///< tokens fed since the last reset
  void reset() { position_ = 0; }

  /// Appends tokens and returns the logits [vocab_size] after the last of them (times
  /// logit_scale). Errors: InternalError past capacity() or for no tokens.
  std::vector<float> feed(const std::vector<int32_t>& tokens);

 private:
  static constexpr int64_t kChunk = 64;  // tokens per pass through the model
  void feed_chunk(const int32_t* tokens, int64_t count);
  void attention(int64_t layer, int64_t count);
  void mlp(int64_t layer, int64_t count, const Mat<const T>& normed, Write write);
  void norm(const Mat<T>& y, const Mat<T>& x, const NormSlots& slots);
  Mat<T> rows(const Buffer<T>& buffer, int64_t count, int64_t columns) const {
    return Mat<T>(buffer.data(), count, columns);
  }

  Blueprint blueprint_;
  const ParameterStore<T>& parameters_;
  ModelSlots slots_;
  HeadShape head_;
  int64_t capacity_ = 0, position_ = 0;
  Buffer<T> stream_, normed_, qkv_, heads_, up_, activated_, delta_, logits_, statistics_;
  std::vector<Buffer<T>> keys_, values_;  // one a layer, [capacity, kv_heads * head_dim]
  Buffer<T> rope_table_;
  Buffer<int32_t> tokens_, positions_;
};

}  // namespace espalier
