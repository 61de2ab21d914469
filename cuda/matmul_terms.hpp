// SPDX-License-Identifier: Apache-2.0
// A product in cuBLASLt's terms, and its handles, each freed by its destructor. Private to
// matmul.cu.
#pragma once

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "core/element_type.hpp"
#include "cuda/check.hpp"

namespace espalier::cuda::lt {

constexpr int64_t kMostAlignment = 16;  // bytes; what the widest loads need

struct Operand {
  const void* data;
  int64_t rows, columns, ld;  // by columns, as cuBLASLt counts
  ElementType type;
  int64_t granule;
};

/// One product in cuBLASLt's terms: result = op(left) op(right).
struct Product {
  cublasOperation_t left_op, right_op;
  Operand left, right, result;
  int64_t k;
  ElementType in, out;
  /// BIAS adds a vector of result.rows; BGRADB also writes the sums of op(right) over k, which are
  /// dY's column sums.
  cublasLtEpilogue_t epilogue;
};

inline std::string describe(const Product& p) {
  const auto letter = [](cublasOperation_t op) { return op == CUBLAS_OP_T ? "T" : "N"; };
  const char* const more = p.epilogue == CUBLASLT_EPILOGUE_BIAS     ? " with bias"
                           : p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? " with bias gradient"
                                                                    : "";
  return fmt::format("cublasLt product of {}{} {} x {} x {}, {} to {}{}", letter(p.right_op),
                     letter(p.left_op), p.result.columns, p.result.rows, p.k, element_name(p.in),
                     element_name(p.out), more);
}

inline void require(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what.c_str(), cublasLtGetStatusString(status));
}

inline cudaDataType_t data_type(ElementType t) {
  switch (t) {
    case ElementType::fp64: return CUDA_R_64F;
    case ElementType::fp32: return CUDA_R_32F;
    case ElementType::bf16: return CUDA_R_16BF;
    case ElementType::fp16: return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

/// The greatest power of two that divides `bytes`, at most kMostAlignment.
inline int64_t alignment(int64_t bytes) {
  return std::min(bytes & -bytes, kMostAlignment) + (bytes == 0 ? kMostAlignment : 0);
}

/// What an algorithm may expect of an operand. Decided by the shape where the operand keeps that,
/// so that no wider leading dimension changes the algorithm; less where it does not.
inline int64_t expected_alignment(const Operand& x) {
  const int64_t bytes = element_bytes(x.type);
  const int64_t address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data));
  return std::min({alignment(x.rows * bytes), alignment(x.ld * bytes), alignment(address),
                   alignment(x.granule * bytes)});
}

struct Key {
  Key(const Product& p, const Operand& left, const Operand& right, const Operand& result)
      : value(static_cast<int>(p.left_op), static_cast<int>(p.right_op), p.result.rows,
              p.result.columns, p.k, static_cast<int>(p.in), static_cast<int>(p.out),
              static_cast<int>(p.epilogue), expected_alignment(p.left), expected_alignment(p.right),
              expected_alignment(p.result), left.ld, right.ld, result.ld) {}
  bool operator<(const Key& other) const { return value < other.value; }

  std::tuple<int, int, int64_t, int64_t, int64_t, int, int, int, int64_t, int64_t, int64_t, int64_t,
             int64_t, int64_t>
      value;
};

class Layout {
 public:
  explicit Layout(const Operand& x) {
    require(cublasLtMatrixLayoutCreate(&handle_, data_type(x.type), static_cast<uint64_t>(x.rows),
                                       static_cast<uint64_t>(x.columns), x.ld),
            fmt::format("cublasLtMatrixLayoutCreate of {} x {}, leading dimension {}", x.rows,
                        x.columns, x.ld));
  }
  Layout(Layout&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Layout& operator=(Layout&&) = delete;
  ~Layout() {
    if (handle_ != nullptr) cublasLtMatrixLayoutDestroy(handle_);
  }
  cublasLtMatrixLayout_t get() const { return handle_; }

 private:
  cublasLtMatrixLayout_t handle_ = nullptr;
};

class Descriptor {
 public:
  explicit Descriptor(const Product& p) {
    const bool wide = p.in == ElementType::fp64;
    require(cublasLtMatmulDescCreate(&handle_, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                     wide ? CUDA_R_64F : CUDA_R_32F),
            "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.left_op);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.right_op);
    if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) cublasLtMatmulDescDestroy(handle_);
  }
  cublasLtMatmulDesc_t get() const { return handle_; }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, const V& value) {
    require(cublasLtMatmulDescSetAttribute(handle_, attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
  }

 private:
  cublasLtMatmulDesc_t handle_ = nullptr;
};

class Preference {
 public:
  Preference(const Product& p, uint64_t workspace) {
    require(cublasLtMatmulPreferenceCreate(&handle_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    // A split of k adds its parts in the type of the sums, in a second step and a fixed order; the
    // other schemes round between them or add in place.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    const auto result = static_cast<uint32_t>(expected_alignment(p.result));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        static_cast<uint32_t>(expected_alignment(p.left)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        static_cast<uint32_t>(expected_alignment(p.right)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
  }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;
  ~Preference() { cublasLtMatmulPreferenceDestroy(handle_); }
  cublasLtMatmulPreference_t get() const { return handle_; }

 private:
  template <class V>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, V value) {
    require(cublasLtMatmulPreferenceSetAttribute(handle_, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t handle_ = nullptr;
};

}  // namespace espalier::cuda::lt
