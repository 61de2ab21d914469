// SPDX-License-Identifier: Apache-2.0
// Token and position embedding: row lookup and its gradient.
#pragma once

#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// x[t] = token_table[tokens[t]] + position_table[positions[t]] (the latter where given).
///
/// Shapes    x [tokens, hidden]; token_table [vocab, hidden]; position_table [seq_length, hidden]
///           or data() null; tokens, positions int32, in range (the reader of the data checked)
template <class T>
void embedding_forward(const Mat<T>& x, const Mat<const T>& token_table,
                       const Mat<const T>& position_table, const int32_t* tokens,
                       const int32_t* positions);

/// d_table[index[t]] += dx[t] in token order, so that the result has one order of additions.
template <class T>
void embedding_backward(const Mat<Acc<T>>& d_table, const Mat<const T>& dx, const int32_t* index);

}  // namespace espalier
