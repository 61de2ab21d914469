// SPDX-License-Identifier: Apache-2.0
// Token and position embedding: row lookup, in a whole table or one rank's rows of it, and its
// gradient.
#pragma once

#include "layers/dropout.hpp"

namespace espalier {

/// x[t] = dropout(token_table[tokens[t] - first] + position_table[positions[t]]) (the latter where
/// given). token_table holds the rows [first, first + its extent) of the vocabulary; of tokens
/// elsewhere x[t] = -0.0, position or not: the number that changes no bit of what it is added to.
/// So the sum over shards is the lookup in the whole table.
///
/// Shapes    x [tokens, hidden]; token_table [rows, hidden]; position_table [seq_length, hidden]
///           or data() null; tokens, positions int32, in range (the reader of the data checked);
///           token_index [tokens], global token indices, may be null where there is no dropout
template <class T>
void embedding_forward(const Mat<T>& x, const Mat<const T>& token_table,
                       const Mat<const T>& position_table, const int32_t* tokens,
                       const int32_t* positions, int64_t first = 0, const DropoutMask& mask = {},
                       const int64_t* token_index = nullptr);

/// x[t] = dropout(x[t] + position_table[positions[t]]), in place: what embedding_forward does after
/// the lookup, the same bits, for where shards of the lookup are summed first. Without a position
/// table (data() null) only dropout is left.
template <class T>
void add_positions(const Mat<T>& x, const Mat<const T>& position_table, const int32_t* positions,
                   const DropoutMask& mask, const int64_t* token_index);

/// d_table[index[t] - first] += dx[t] in token order, so that the result has one order of
/// additions; tokens outside the table's rows are skipped. With dropout, dx is what apply_dropout
/// made of the gradient of x.
template <class T>
void embedding_backward(const Mat<Acc<T>>& d_table, const Mat<const T>& dx, const int32_t* index,
                        int64_t first = 0);

}  // namespace espalier
