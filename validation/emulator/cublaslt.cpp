// SPDX-License-Identifier: Apache-2.0
// Emulated device: cuBLASLt's calls. The heuristic chooses among several orders of the sum by
// everything that it is told, leading dimensions and alignments too, so that a caller whose bits
// shall depend on the shape alone has to keep its choice. What the caller claims (alignments,
// workspace, extents inside allocations) is checked where the real library would go wrong.
#include <cublasLt.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/device_memory.hpp"
#include "emulator/engine.hpp"
#include "emulator/product.hpp"
#include "emulator/runtime.hpp"

using namespace espalier::emulator;

struct cublasLtContext {
  int device = 0;
};
struct cublasLtMatrixLayoutOpaque {
  MatrixLayout m;
};
struct cublasLtMatmulDescOpaque {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int32_t bias_type = -1;
};
struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspace = 0;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // A, B, C, D
};

namespace {

constexpr uint64_t kMagic = 0x45535041'4c474f31;

/// What cublasLtMatmulAlgo_t holds.
struct Algorithm {
  uint64_t magic, order;
  uint64_t alignment[4];
  uint64_t workspace, epilogue;
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

Algorithm unpack(const cublasLtMatmulAlgo_t& algorithm) {
  Algorithm a;
  memcpy(&a, &algorithm, sizeof a);
  return a;
}

template <class T>
cublasStatus_t take(T* to, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// The highest power of two up to 256 by which the distances of a matrix divide.
uint64_t alignment_of(const MatrixLayout& m) {
  uint64_t alignment = 256;
  const auto step = static_cast<uint64_t>(m.ld) * element_size(m.type);
  const auto batch = static_cast<uint64_t>(m.batch_stride) * element_size(m.type);
  while (alignment > 1 && (step % alignment != 0 || (m.batches > 1 && batch % alignment != 0)))
    alignment /= 2;
  return alignment;
}

/// So that callers' other ways are tested too: "none" or "broken", whose products are offered and
/// refused when they run.
bool are_epilogues(const char* what) {
  const char* const text = getenv("ESPALIER_EMULATED_EPILOGUES");
  return text != nullptr && strcmp(text, what) == 0;
}

cublasStatus_t judge(cublasLtMatmulDesc_t desc, const MatrixLayout& a, const MatrixLayout& b,
                     const MatrixLayout& c, const MatrixLayout& d) {
  const int64_t m = desc->transpose_a != 0 ? a.columns : a.rows;
  const int64_t k = desc->transpose_a != 0 ? a.rows : a.columns;
  const int64_t k_of_b = desc->transpose_b != 0 ? b.columns : b.rows;
  const int64_t n = desc->transpose_b != 0 ? b.rows : b.columns;
  const bool fits = k == k_of_b && d.rows == m && d.columns == n && c.rows == m && c.columns == n &&
                    c.type == d.type && a.batches == d.batches && b.batches == d.batches &&
                    c.batches == d.batches;
  if (!fits || m == 0 || n == 0 || k == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool is_wide = desc->compute == CUBLAS_COMPUTE_64F;
  const auto is_known = [&](const MatrixLayout& x) { return (x.type == CUDA_R_64F) == is_wide; };
  if (a.type != b.type || !is_known(a) || !is_known(d) ||
      desc->scale != (is_wide ? CUDA_R_64F : CUDA_R_32F) ||
      (d.type != CUDA_R_32F && d.type != a.type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  switch (desc->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool has_epilogue =
      d.order == CUBLASLT_ORDER_COL && d.batches == 1 && !is_wide && !are_epilogues("none");
  return has_epilogue ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool is_aligned(const void* data, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

/// Whether the matrix lies inside one allocation of the device.
bool is_there(const void* data, const MatrixLayout& x) {
  const int64_t lines = x.order == CUBLASLT_ORDER_COL ? x.columns : x.rows;
  const int64_t length = x.order == CUBLASLT_ORDER_COL ? x.rows : x.columns;
  const int64_t elements = (x.batches - 1) * x.batch_stride + (lines - 1) * x.ld + length;
  return device_of(data, static_cast<size_t>(elements) * element_size(x.type)) >= 0;
}

/// Ends the process where the caller claimed what is not so.
void check_claims(const Product& p, const Algorithm& known, size_t workspace_bytes) {
  const Matrix* const operands[] = {&p.a, &p.b, &p.c, &p.d};
  const char* const names[] = {"A", "B", "C", "D"};
  for (int i = 0; i < 4; ++i) {
    if (!is_there(operands[i]->data, operands[i]->layout))
      die(std::string("cublasLtMatmul: ") + names[i] +
          " is not inside one allocation of the device");
    if (!is_aligned(operands[i]->data, known.alignment[i]))
      die(std::string("cublasLtMatmul: the algorithm was chosen for ") + names[i] + " aligned to " +
          std::to_string(known.alignment[i]) + " bytes, and it is not");
  }
  if (known.workspace > 0) {
    if (workspace_bytes < known.workspace || device_of(p.workspace, known.workspace) < 0)
      die("cublasLtMatmul: the workspace is smaller than the algorithm needs, or not on the "
          "device");
    if (!is_aligned(p.workspace, 16)) die("cublasLtMatmul: the workspace is not 16-byte aligned");
  }
  if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    const int64_t length =
        p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.d.layout.columns : p.d.layout.rows;
    if (device_of(p.bias, static_cast<size_t>(length) * element_size(p.bias_type)) < 0)
      die("cublasLtMatmul: the bias is not inside one allocation of the device");
  }
}

}  // namespace

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}
size_t cublasLtGetVersion() {
  return 130100;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  cudaGetDevice(&(*handle)->device);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  if (ld < 0) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque;
  (*layout)->m.type = type;
  (*layout)->m.rows = static_cast<int64_t>(rows);
  (*layout)->m.columns = static_cast<int64_t>(columns);
  (*layout)->m.ld = ld;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return take(&layout->m.order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return take(&layout->m.batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(&layout->m.batch_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *descriptor = new cublasLtMatmulDescOpaque;
  (*descriptor)->compute = compute;
  (*descriptor)->scale = scale;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  delete descriptor;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(&descriptor->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(&descriptor->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(&descriptor->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(&descriptor->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return take(&descriptor->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  uint32_t ignored = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return take(&ignored, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(&preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(&preference->schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(&preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                  value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  *returned = 0;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (preference == nullptr || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = judge(descriptor, a->m, b->m, c->m, d->m);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const MatrixLayout* const layouts[] = {&a->m, &b->m, &c->m, &d->m};
  Algorithm algorithm = {kMagic, 0, {}, 0, descriptor->epilogue};
  uint64_t told = 0x9e3779b97f4a7c15u;
  const auto mix = [&](uint64_t x) { told = (told ^ x) * 0xff51afd7ed558ccdu ^ told >> 29; };
  for (int i = 0; i < 4; ++i) {
    algorithm.alignment[i] =
        std::min<uint64_t>({16, preference->alignment[i], alignment_of(*layouts[i])});
    for (const auto x : {layouts[i]->rows, layouts[i]->columns, layouts[i]->ld})
      mix(static_cast<uint64_t>(x));
    mix(algorithm.alignment[i]);
  }
  mix(descriptor->epilogue);
  algorithm.order = (told >> 40) % kSumOrders;
  constexpr uint64_t kNeeded = 1 << 16;
  if (needs_workspace(algorithm.order)) {
    const bool may = (preference->schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0 &&
                     preference->workspace >= kNeeded;
    if (may)
      algorithm.workspace = kNeeded;
    else
      algorithm.order = 0;
  }
  results[0] = {};
  memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const cublasStatus_t status = judge(descriptor, a->m, b->m, c->m, d->m);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm known = unpack(*algorithm);
  if (known.magic != kMagic || known.epilogue != descriptor->epilogue)
    return CUBLAS_STATUS_INVALID_VALUE;
  const MatrixLayout* const layouts[] = {&a->m, &b->m, &c->m, &d->m};
  for (int i = 0; i < 4; ++i)
    if (alignment_of(*layouts[i]) < known.alignment[i]) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algorithm, known.workspace, CUBLAS_STATUS_SUCCESS, 1, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Guard guard;
  cublasLtMatmulHeuristicResult_t answer;
  if (algorithm == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;  // choosing anew each time is slow
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, descriptor, a_layout, b_layout,
                                                        c_layout, d_layout, algorithm, &answer);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm known = unpack(*algorithm);
  if (known.epilogue != CUBLASLT_EPILOGUE_DEFAULT && are_epilogues("broken"))
    return CUBLAS_STATUS_NOT_SUPPORTED;

  Product p;
  p.a = {a, a_layout->m};
  p.b = {b, b_layout->m};
  p.c = {c, c_layout->m};
  p.d = {d, d_layout->m};
  p.data_of_d = d;
  p.transpose_a = descriptor->transpose_a != 0;
  p.transpose_b = descriptor->transpose_b != 0;
  p.epilogue = static_cast<cublasLtEpilogue_t>(descriptor->epilogue);
  p.bias = descriptor->bias;
  p.bias_type = descriptor->bias_type < 0 ? d_layout->m.type
                                          : static_cast<cudaDataType_t>(descriptor->bias_type);
  p.order = known.order;
  p.workspace = workspace;
  p.workspace_bytes = known.workspace;
  p.alpha = descriptor->scale == CUDA_R_64F ? *static_cast<const double*>(alpha)
                                            : *static_cast<const float*>(alpha);
  p.beta = descriptor->scale == CUDA_R_64F ? *static_cast<const double*>(beta)
                                           : *static_cast<const float*>(beta);

  check_claims(p, known, workspace_bytes);
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const cudaError_t error =
      submit(found, {"cublasLtMatmul", [p] { multiply(p); }, nullptr, nullptr, false});
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
