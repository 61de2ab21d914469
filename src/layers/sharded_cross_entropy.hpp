// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of logits whose vocabulary is cut into shards: three numbers a token and
// shard are all that ranks exchange. What travels is the caller's business.
#pragma once

#include "layers/cross_entropy.hpp"

namespace espalier {

/// Numbers a token in the two kinds of records below.
constexpr int64_t kShardStatistics = 3, kLogTerms = 2;

/// First pass over one shard, z = logit_scale * logits: statistics[t] = greatest z (lowest() where
/// columns is 0), sum of exp(z - greatest), z of the target (0 where another shard has it). Rows
/// whose target is -1 are not read and give (lowest(), 0, 0). With Gradient::in_place, where T is
/// the sum type, exp(z - greatest) may be left in place of the logits for shard_gradient.
///
/// Shapes    logits [rows, columns], rows `stride` elements apart: columns [first_column,
///           first_column + columns) of the vocabulary, possibly none; targets [rows] in the whole
///           vocabulary; statistics [rows, 3]
/// Precision in the sum type; logit_scale > 0
template <class T>
void shard_statistics(T* logits, int64_t stride, int64_t rows, int64_t columns,
                      const int32_t* targets, int64_t first_column, double logit_scale,
                      Gradient gradient, Acc<T>* statistics);

/// losses[t] = log sum_v exp(z_v) - z_target over all shards, 0 where targets[t] is -1;
/// log_terms[t] = the greatest z of all shards and the sum of exp(z - greatest), (0, 1) where
/// targets[t] is -1. Shards are summed in a binary tree, neighbours first, so the bits depend on
/// their number alone.
///
/// Shapes    statistics [shards, rows, 3] in the order of the shards; losses [rows]; log_terms
///           [rows, 2]
template <class T>
void combine_shards(Acc<T>* losses, Acc<T>* log_terms, const Acc<T>* statistics, int64_t shards,
                    int64_t rows, const int32_t* targets);

/// Second pass over one shard: logits (as shard_statistics with Gradient::in_place left them)
/// become the gradient of gradient_scale times the SUM of the losses.
///
/// With p = exp(z - greatest) / sum: d logits = gradient_scale * logit_scale * (p - [v = target]).
/// Shapes    statistics [rows, 3] of this shard; log_terms [rows, 2]; the rest as above
template <class T>
void shard_gradient(T* logits, int64_t stride, int64_t rows, int64_t columns,
                    const int32_t* targets, int64_t first_column, double logit_scale,
                    double gradient_scale, const Acc<T>* statistics, const Acc<T>* log_terms);

}  // namespace espalier
