// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, row-major, with the plan of each shape chosen once.
#pragma once

#include <cstdint>
#include <string>

#include "core/element_type.hpp"
#include "cuda/stream.hpp"

namespace espalier::cuda {

/// Device memory that products of one stream share, before and from compute capability 9.0.
constexpr int64_t kMatmulWorkspaceBytes = 32 << 20, kMatmulWorkspaceBytesOfHopper = 64 << 20;

/// C [m, n] = alpha op(A) op(B) + beta C; leading dimensions in elements.
struct Matmul {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  int64_t lda = 0, ldb = 0, ldc = 0;
  ElementType in = ElementType::bf16;  // of a and b
  ElementType out = ElementType::bf16;
  /// Where the operands are parts of larger matrices whose cuts differ between layouts: elements
  /// that their offsets and leading dimensions are multiples of on every layout. No better
  /// alignment is made use of, so that the algorithm is the same on all. 0: none.
  int64_t granule = 0;
};

/// fp64 in fp64; fp32 in fp32 (no TF32); 16-bit values multiplied exactly and added in fp32, also
/// where k is split. Sums in an order that the algorithm fixes: no atomics, no adding in place.
///
/// The algorithm depends on the shape and the types alone, not on leading dimensions, so that a
/// product of one shape has the same bits wherever its operands lie. It is chosen for packed
/// operands; only where an operand is less aligned (address or leading dimension, of 16 bytes) than
/// the packed rows of its shape, or where the algorithm refuses a leading dimension, another is
/// chosen. The choice is made at the first call of a shape with its leading dimensions, the
/// workspace allocated at the first call on a stream: no allocation afterwards, so calls may be
/// captured in a graph then.
/// m, n or k may be 0; C is not read where beta is 0.
/// Errors  InternalError with cuBLASLt's status; LaunchError where the workspace finds no memory
void matmul(const Matmul& call, Stream stream);

/// C = alpha op(A) op(B) + beta C + bias in every row, rounded once; bias [n], of C's type. Returns
/// false, and C is untouched, where cuBLASLt has no such epilogue for the shape, bias is not
/// aligned to 16 bytes, or k is 0. For whole matrices: granule must be 0.
bool matmul_with_bias(const Matmul& call, const void* bias, Stream stream);

/// When the bias gradient is asked of cuBLASLt: where the device has kernels of its own for it
/// (before compute capability 9.0; there for fp16 alone), or wherever the heuristic offers one.
enum class BiasGradient { automatic, epilogue };

/// dW [out, in] = dY^T X + beta dW and, in the same product, db [out] += the column sums of dY by
/// the epilogue BGRADB: fp32, formed from the operand tiles that the product reads anyway. Where
/// that is not to be had the plain product alone: returns whether db was done; dW is done in any
/// case, and not read where beta is 0. dy [tokens, out]; x [tokens, in], leading dimensions in
/// elements. scratch [out] floats, 16-byte aligned.
bool matmul_weight_and_bias(float* dw, int64_t lddw, float* db, const void* dy, int64_t lddy,
                            const void* x, int64_t ldx, int64_t out, int64_t in, int64_t tokens,
                            ElementType type, float* scratch, Stream stream,
                            BiasGradient way = BiasGradient::automatic, float beta = 1);

/// "cuBLASLt 13.0.1", for the run header.
std::string matmul_library();

/// Frees handles, plans and workspaces; before the device goes.
void release_matmul();

}  // namespace espalier::cuda
