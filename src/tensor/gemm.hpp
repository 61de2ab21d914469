// SPDX-License-Identifier: Apache-2.0
// Matrix products on row-major matrices, by the library that the build chose.
#pragma once

#include <string>

#include "tensor/types.hpp"

namespace espalier {

enum class Op { none, transpose };

/// C = alpha * op(A) op(B) + beta * C, all row-major with leading dimensions in elements.
///
/// Shapes    op(A) [m, k]; op(B) [k, n]; C [m, n]
/// Precision 16-bit inputs are widened to fp32, multiplied and summed in fp32, and rounded once if
///           C is 16-bit; fp64 in fp64
/// Errors    InternalError when a dimension exceeds the library's integers
/// Instances T = C in {float, double, bf16, fp16}; T 16-bit with C float
template <class T, class C>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, Acc<T> alpha, const T* a, int64_t lda,
          const T* b, int64_t ldb, Acc<T> beta, C* c, int64_t ldc);

/// Name, version and chosen kernel of the library, for the run header.
std::string gemm_library();

/// Uses one thread of the library a Kokkos thread, whatever its own default is.
void set_gemm_threads(int threads);

/// Best rate of n x n x n fp32 products in FLOP/s, over about `seconds`.
double measure_gemm_rate(int64_t n = 2048, double seconds = 0.5);

/// Peak fp32 rate of one core in FLOP/s from its clock and vector width, 0 if unknown.
double nominal_core_peak();

}  // namespace espalier
