// SPDX-License-Identifier: Apache-2.0
// Linear layers: the products and the sum of the bias gradient. Biases are added by the product
// itself or where the output is next read (activation, residual), which saves a pass over it.
#pragma once

#include "tensor/gemm.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Whether a product overwrites its output or is added to it.
enum class Write { overwrite, add };

/// y = x W^T, or y += x W^T. The bias is not added here.
///
/// Shapes    y [tokens, out]; x [tokens, in]; w [out, in]
/// Errors    InternalError if extents disagree
template <class T>
void linear_forward(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w,
                    Write write = Write::overwrite);

/// y = x W^T, and + b in the same product where a device's library has such an epilogue for the
/// shape: y is then rounded once instead of twice. Returns whether b is in y. b.data() may be null.
///
/// Shapes    as above; b [out]
template <class T>
[[nodiscard]] bool linear_forward_with_bias(const Mat<T>& y, const Mat<const T>& x,
                                            const Mat<const T>& w, const Vec<const T>& b);

/// dx = dy W, or dx += dy W. Shapes as in linear_forward.
template <class T>
void linear_backward_input(const Mat<T>& dx, const Mat<const T>& dy, const Mat<const T>& w,
                           Write write = Write::overwrite);

/// dw += dy^T x, or dw = dy^T x where a sum over micro-batches begins. dw [out, in] in the sum
/// type.
template <class T>
void linear_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                            Write write = Write::add);

/// db += sum of dy over the tokens, in token order; on a device in a fixed order. db [out] in the
/// sum type; scratch [kBiasPartials, out] for the tuned kernel, which is not taken without.
template <class T>
void linear_backward_bias(const Vec<Acc<T>>& db, const Mat<const T>& dy, Acc<T>* scratch = nullptr);

/// Both of them; on a device in one product where the library has such an epilogue for the shape,
/// so that dy is read once. Of the results only the order of db's sum depends on that. db.data()
/// may be null; scratch as above. `write` is that of dw; db is added to.
template <class T>
void linear_backward(const Mat<Acc<T>>& dw, const Vec<Acc<T>>& db, const Mat<const T>& dy,
                     const Mat<const T>& x, Acc<T>* scratch, Write write = Write::add);

/// x += b for every token; x [tokens, out], b [out].
template <class T>
void add_bias(const Mat<T>& x, const Vec<const T>& b);

}  // namespace espalier
