// SPDX-License-Identifier: Apache-2.0
// Emulated device: the matrix products behind cuBLASLt's calls.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace espalier::emulator {

struct MatrixLayout {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0, columns = 0, ld = 0;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};
struct Matrix {
  const void* data = nullptr;
  MatrixLayout layout;
};

/// D = alpha op(A) op(B) + beta C, with what the epilogue adds to it or computes beside it.
struct Product {
  Matrix a, b, c, d;
  void* data_of_d = nullptr;
  bool transpose_a = false, transpose_b = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  uint64_t order = 0;
  void* workspace = nullptr;
  uint64_t workspace_bytes = 0;  // overwritten
  double alpha = 1, beta = 0;
};

/// Orders in which an element is summed over k: ascending, descending, by halves, even before odd.
constexpr uint64_t kSumOrders = 4;
bool needs_workspace(uint64_t order);

size_t element_size(cudaDataType_t type);

/// Sums in fp32, in fp64 for fp64; each element rounded once to the type of D.
void multiply(const Product& product);

}  // namespace espalier::emulator
