// SPDX-License-Identifier: Apache-2.0
// The non-linear part of the MLP, with the bias of the linear layer before it added on the way.
#pragma once

#include "deck/config.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// up += bias (kept for backward), then
///   gelu_tanh  y = u * sigmoid(2 z), z = sqrt(2 / pi) (u + 0.044715 u^3)
///   gelu       y = u * Phi(u)
///   swiglu     y = g * sigmoid(g) * u, gate g the first half of up's columns, u the second
///
/// Shapes    y [tokens, intermediate]; up [tokens, intermediate], twice that for swiglu; bias [as
///           up's columns], data() null where there is none
/// Source    Hendrycks & Gimpel 2016, arXiv:1606.08415; Shazeer 2020, arXiv:2002.05202
template <class T>
void activation_forward(Activation kind, const Mat<T>& y, const Mat<T>& up,
                        const Vec<const T>& bias);

/// d_up = gradient with respect to up (bias included) from dy; overwritten.
template <class T>
void activation_backward(Activation kind, const Mat<T>& d_up, const Mat<const T>& dy,
                         const Mat<const T>& up);

/// The same and, where that needs no pass over d_up of its own, db += the sums of d_up over the
/// tokens, with the bits of linear_backward_bias. Returns whether it did: never for swiglu, nor
/// without the tuned kernels or scratch.
///
/// Shapes    db [as up's columns] in the sum type, data() may be null; scratch [kBiasPartials, up's
///           columns], may be null
template <class T>
[[nodiscard]] bool activation_and_bias_backward(Activation kind, const Mat<T>& d_up,
                                                const Vec<Acc<T>>& db, const Mat<const T>& dy,
                                                const Mat<const T>& up, Acc<T>* scratch);

}  // namespace espalier
