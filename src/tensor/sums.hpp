// SPDX-License-Identifier: Apache-2.0
// Small sums that several rooms need, as kernels of the current stream. Free functions: a device
// lambda may not stand in a private member.
#pragma once

#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// to[i] += from[i] for i < size. Instances  float, double
template <class Real>
void add_to(Real* to, const Real* from, int64_t size);
/// to[i] = from[i] + to[i], `from` on the left of the sum.
template <class Real>
void add_from_left(Real* to, const Real* from, int64_t size);
/// to[i] *= factor
template <class Real>
void multiply_by(Real* to, Real factor, int64_t size);
/// first[i] = second[i] = first[i] + second[i]
template <class Real>
void make_sum_of_both(Real* first, Real* second, int64_t size);
/// to[i] = To(from[i]), rounded to nearest even; the arrays are apart.
/// Instances  a type and itself; between float and bf16; float to fp16
template <class From, class To>
void round_values(const From* from, To* to, int64_t size);
/// result[j] = sum over leaves of partials [leaves, width], neighbours first; partials are spent.
template <class Real>
void sum_of_leaves(Real* result, Real* partials, int64_t leaves, int64_t width);

}  // namespace espalier
