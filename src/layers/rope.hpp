// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of queries or keys, in place.
#pragma once

#include "deck/config.hpp"
#include "layers/head_rows.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// cos and sin of every (position, pair): table [positions, head_dim], cos in the first half of a
/// row, sin in the second. Computed in double.
///
/// angle = position * f_i, f_i = theta^(-2 i / head_dim), i in [0, head_dim / 2)
///   linear scaling  f_i / factor                                  (Chen et al. 2023, 2306.15595)
///   llama3 scaling  wavelength w = 2 pi / f_i: f_i where w < original / high_freq_factor, f_i /
///                   factor where w > original / low_freq_factor, and between them a linear blend
///                   in original / w                               (Llama 3.1, 2407.21783)
template <class Real>
Buffer<Real> make_rope_table(const ModelConfig& model, int64_t positions);

enum class Rotation { forward, inverse };  // inverse = the transpose, for gradients

/// Rotates the first `heads` heads of `tokens` rows in place by each token's position: called once
/// for the queries and once for the keys. Pairs (i, i + head_dim / 2) in style half, (2i, 2i + 1)
/// in style interleaved.
/// Source  Su et al. 2021, arXiv:2104.09864
template <class T>
void rope(RopeStyle style, Rotation rotation, const HeadRows<T>& rows, int64_t heads,
          int64_t head_dim, int64_t tokens, const Buffer<Acc<T>>& table, const int32_t* positions);

}  // namespace espalier
