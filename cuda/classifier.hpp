// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy and its gradient in place: the tuned forms of layers/cross_entropy.hpp and
// layers/sharded_cross_entropy.hpp. T = float, bf16, fp16.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace espalier::cuda {

/// As cross_entropy() of layers/cross_entropy.hpp: one pass for the maximum and the sum, one for
/// the gradient.
template <class T>
void cross_entropy(T* logits, const int32_t* targets, float* losses, int64_t rows, int64_t columns,
                   float logit_scale, float gradient_scale, bool wants_gradient, Stream stream);

/// As shard_statistics(); the logits are left as they are.
template <class T>
void shard_statistics(const T* logits, int64_t stride, int64_t rows, int64_t columns,
                      const int32_t* targets, int64_t first_column, float logit_scale,
                      float* statistics, Stream stream);
/// As combine_shards().
void combine_shards(float* losses, float* log_terms, const float* statistics, int64_t shards,
                    int64_t rows, const int32_t* targets, Stream stream);
/// As shard_gradient(), from the logits themselves.
template <class T>
void shard_gradient(T* logits, int64_t stride, int64_t rows, int64_t columns,
                    const int32_t* targets, int64_t first_column, float logit_scale,
                    float gradient_scale, const float* statistics, const float* log_terms,
                    Stream stream);

}  // namespace espalier::cuda
