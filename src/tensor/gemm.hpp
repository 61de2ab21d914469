// SPDX-License-Identifier: Apache-2.0
// Matrix products on row-major matrices, by the library that the build chose.
#pragma once

#include <string>

#include "tensor/types.hpp"

namespace espalier {

enum class Op { none, transpose };

/// C = alpha * op(A) op(B) + beta * C, all row-major with leading dimensions in elements; on the
/// current stream of a device.
///
/// Shapes    op(A) [m, k]; op(B) [k, n]; C [m, n]; granule, where layouts cut the matrices that
///           these are parts of in different places and shall have the same bits: elements that all
///           offsets and leading dimensions are multiples of on every layout (a device's library
///           chooses by alignment)
/// Precision 16-bit inputs are widened to fp32, multiplied and summed in fp32, and rounded once if
///           C is 16-bit; fp64 in fp64
/// Errors    InternalError when a dimension exceeds the library's integers
/// Instances T = C in {float, double, bf16, fp16}; T 16-bit with C float
template <class T, class C>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, Acc<T> alpha, const T* a, int64_t lda,
          const T* b, int64_t ldb, Acc<T> beta, C* c, int64_t ldc, int64_t granule = 0);

/// Name, version and chosen kernel of the library, for the run header.
std::string gemm_library();

/// Uses one thread of the library a Kokkos thread, whatever its own default is.
void set_gemm_threads(int threads);

/// Frees what the library and the products keep, before the device goes.
void release_gemm();

/// Best rate of n x n x n products in FLOP/s, over about `seconds`. The host multiplies fp32
/// whatever the type, a device the type itself.
double measure_gemm_rate(ElementType type, int64_t n, double seconds);

/// Peak fp32 rate of one core in FLOP/s from its clock and vector width, 0 if unknown and in a
/// build for a device.
double nominal_core_peak();

}  // namespace espalier
