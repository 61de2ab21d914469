// SPDX-License-Identifier: Apache-2.0
// The residual addition by itself, for where no norm follows on the same rank.
#pragma once

#include "layers/dropout.hpp"

namespace espalier {

/// x = stream + dropout(delta + delta_bias): what residual_norm_forward does before its norm, the
/// same bits. `delta_bias.data()` may be null; x may be stream.
///
/// Shapes    x, stream, delta [tokens, hidden]; delta_bias [hidden]; token_index [tokens], global
///           token indices, may be null where mask.probability is 0
template <class T>
void residual_add(const Mat<T>& x, const Mat<const T>& stream, const Mat<const T>& delta,
                  const Vec<const T>& delta_bias, const DropoutMask& mask,
                  const int64_t* token_index);

}  // namespace espalier
