// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy of a chunk of logits and its gradient in place.
#pragma once

#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

enum class Gradient { none, in_place };

/// losses[t] = log sum_v exp(z_v) - z_target with z = logit_scale * logits[t]; 0 where targets[t]
/// is -1. With Gradient::in_place, logits become the gradient of gradient_scale times the SUM of
/// the losses; the division by the number of valid tokens happens once, in the optimizer.
///
/// Shapes    logits [tokens, vocab]; targets, losses [tokens]
/// Precision in the sum type
template <class T>
void cross_entropy(const Mat<T>& logits, const int32_t* targets, Acc<T>* losses, double logit_scale,
                   double gradient_scale, Gradient gradient);

}  // namespace espalier
