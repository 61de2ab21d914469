// SPDX-License-Identifier: Apache-2.0
// Causal attention with grouped queries and document mask. Scores exist only for one tile of
// queries and keys at a time; the backward pass computes them again.
#pragma once

#include "blueprint/activation_plan.hpp"
#include "layers/dropout.hpp"
#include "layers/head_rows.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// The shape of one call: `sequences` sequences of `length` tokens, token = sequence * length + s.
struct AttentionShape {
  HeadShape head;
  int64_t sequences = 0, length = 0;
  double scale = 1.0;  // of the scores, before softmax
};

/// Dropout of the softmax weights. The weight of (query, head, key) has the index
/// ((global query token * heads + global head) * length + key position) of the mask, modulo 2^64.
struct AttentionDropout {
  DropoutMask mask;
  const int64_t* first_token = nullptr;  // [sequences], global index of each one's first token,
                                         // where kernels read; used where the mask is active
  int64_t first_head = 0;                // global index of the call's first query head
  int64_t heads = 0;                     // query heads of the whole model
};

/// heads[t, h] = sum over k of m_k softmax_k(scale q[t, h] . k[k, h']) v[k, h'], over the keys k of
/// the same sequence with document_start[t] <= k <= t; h' = h / (heads / kv_heads); m the dropout
/// factors. Each head is computed by itself: its bits do not depend on the others in the call.
///
/// Shapes    heads [tokens, heads, head_dim]; log_sum [tokens, heads] (log of the softmax's
///           denominator, kept for backward), element (t, h) at data[t * stride + h]; in.q [tokens,
///           heads, head_dim], in.k and in.v [tokens, kv_heads, head_dim]; document_start [tokens],
///           positions within the sequence; scratch as attention.scratch of the activation plan
/// Precision scores, softmax and sums in the sum type
/// Source    Dao et al. 2022, arXiv:2205.14135; Milakov & Gimelshein 2018, arXiv:1805.02867
template <class T>
void attention_forward(const HeadRows<T>& heads, const HeadRows<Acc<T>>& log_sum,
                       const QueryKeyValue<const T>& in, const int32_t* document_start,
                       const AttentionShape& shape, const AttentionDropout& dropout,
                       Acc<T>* scratch);

/// d_in (overwritten) from d_heads. With p the softmax, o the output row, D = d_o . o:
///   dv_k = sum_t m_tk p_tk d_o_t;  ds_tk = scale p_tk (m_tk d_o_t . v_k - D_t);
///   dq_t = sum_k ds_tk k_k;        dk_k = sum_t ds_tk q_t;
/// dk and dv summed over the query heads of a group, as far as they are in this call.
/// Source    Dao et al. 2022, algorithm 4
template <class T>
void attention_backward(const QueryKeyValue<T>& d_in, const HeadRows<const T>& d_heads,
                        const HeadRows<const T>& heads, const HeadRows<const Acc<T>>& log_sum,
                        const QueryKeyValue<const T>& in, const int32_t* document_start,
                        const AttentionShape& shape, const AttentionDropout& dropout,
                        Acc<T>* scratch);

/// Attention of `count` new tokens at positions start ... start + count - 1 of one sequence whose
/// keys and values of all positions up to there stand in the caches [capacity, kv_heads *
/// head_dim]. For generation: no log_sum is kept.
template <class T>
void attention_cached(const Mat<T>& heads, const Mat<const T>& qkv, const Mat<const T>& key_cache,
                      const Mat<const T>& value_cache, int64_t start, const HeadShape& head,
                      double scale);

}  // namespace espalier
