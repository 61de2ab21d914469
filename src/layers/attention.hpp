// SPDX-License-Identifier: Apache-2.0
// Causal attention with grouped queries and document mask. Scores exist only for one tile of
// queries and keys at a time; the backward pass computes them again.
#pragma once

#include "blueprint/activation_plan.hpp"
#include "layers/rope.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// The shape of one call: `sequences` sequences of `length` tokens, token = sequence * length + s.
struct AttentionShape {
  HeadShape head;
  int64_t sequences = 0, length = 0;
  double scale = 1.0;  // of the scores, before softmax
};

/// heads[t, h] = sum over k of softmax_k(scale q[t, h] . k[k, h']) v[k, h'], over the keys k of the
/// same sequence with document_start[t] <= k <= t; h' = h / (heads / kv_heads).
///
/// Shapes    heads [tokens, heads * head_dim]; log_sum [tokens, heads] (log of the softmax's
///           denominator, kept for backward); qkv [tokens, head.row()]; document_start [tokens],
///           positions within the sequence; scratch of attention_scratch(length, head_dim) elements
/// Precision scores, softmax and sums in the sum type
/// Source    Dao et al. 2022, arXiv:2205.14135; Milakov & Gimelshein 2018, arXiv:1805.02867
template <class T>
void attention_forward(const Mat<T>& heads, const Mat<Acc<T>>& log_sum, const Mat<const T>& qkv,
                       const int32_t* document_start, const AttentionShape& shape, Acc<T>* scratch);

/// d_qkv (overwritten) from d_heads. With p the softmax, o the output row, D = d_o . o:
///   dv_k = sum_t p_tk d_o_t;  ds_tk = scale p_tk (d_o_t . v_k - D_t);
///   dq_t = sum_k ds_tk k_k;   dk_k = sum_t ds_tk q_t, summed over the query heads of a group.
/// Source    Dao et al. 2022, algorithm 4
template <class T>
void attention_backward(const Mat<T>& d_qkv, const Mat<const T>& d_heads, const Mat<const T>& heads,
                        const Mat<const Acc<T>>& log_sum, const Mat<const T>& qkv,
                        const int32_t* document_start, const AttentionShape& shape,
                        Acc<T>* scratch);

/// Attention of `count` new tokens at positions start ... start + count - 1 of one sequence whose
/// keys and values of all positions up to there stand in the caches [capacity, kv_heads *
/// head_dim]. For generation: no log_sum is kept.
template <class T>
void attention_cached(const Mat<T>& heads, const Mat<const T>& qkv, const Mat<const T>& key_cache,
                      const Mat<const T>& value_cache, int64_t start, const HeadShape& head,
                      double scale);

}  // namespace espalier
