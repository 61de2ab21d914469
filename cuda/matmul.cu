// SPDX-License-Identifier: Apache-2.0
// cuBLASLt sees matrices by columns, so a row-major C = op(A) op(B) is asked of it as
// C^T = op(B)^T op(A)^T: memory, leading dimensions and transpositions stay, the operands change
// places.
#include "cuda/matmul.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "cuda/launch.cuh"
#include "cuda/reduction.hpp"
#include "device/device.hpp"
#include "tensor/types.hpp"

namespace espalier::cuda {
namespace {

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
  bool sums_right;  // also the sums of op(right) over k, which are dY's column sums
};

std::string describe(const Product& p) {
  const auto letter = [](cublasOperation_t op) { return op == CUBLAS_OP_T ? "T" : "N"; };
  return fmt::format("cublasLt product of {}{} {} x {} x {}, {} to {}{}", letter(p.right_op),
                     letter(p.left_op), p.result.columns, p.result.rows, p.k, element_name(p.in),
                     element_name(p.out), p.sums_right ? " with bias gradient" : "");
}

void require(cublasStatus_t status, const std::string& what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(what.c_str(), cublasLtGetStatusString(status));
}

cudaDataType_t data_type(ElementType t) {
  switch (t) {
    case ElementType::fp64: return CUDA_R_64F;
    case ElementType::fp32: return CUDA_R_32F;
    case ElementType::bf16: return CUDA_R_16BF;
    case ElementType::fp16: return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

/// The greatest power of two that divides `bytes`, at most kMostAlignment.
int64_t alignment(int64_t bytes) {
  return std::min(bytes & -bytes, kMostAlignment) + (bytes == 0 ? kMostAlignment : 0);
}

/// What an algorithm may expect of an operand. Decided by the shape where the operand keeps that,
/// so that no wider leading dimension changes the algorithm; less where it does not.
int64_t expected_alignment(const Operand& x) {
  const int64_t bytes = element_bytes(x.type);
  const int64_t address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data));
  return std::min({alignment(x.rows * bytes), alignment(x.ld * bytes), alignment(address),
                   alignment(x.granule * bytes)});
}

struct Key {
  Key(const Product& p, const Operand& left, const Operand& right, const Operand& result)
      : value(static_cast<int>(p.left_op), static_cast<int>(p.right_op), p.result.rows,
              p.result.columns, p.k, static_cast<int>(p.in), static_cast<int>(p.out), p.sums_right,
              expected_alignment(p.left), expected_alignment(p.right), expected_alignment(p.result),
              left.ld, right.ld, result.ld) {}
  bool operator<(const Key& other) const { return value < other.value; }

  std::tuple<int, int, int64_t, int64_t, int64_t, int, int, bool, int64_t, int64_t, int64_t,
             int64_t, int64_t, int64_t>
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
    if (p.sums_right) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
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

struct Choice {
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  cublasLtMatmulAlgo_t algorithm{};
};

/// All that a product of one shape and one set of leading dimensions needs.
struct Plan {
  Descriptor descriptor;
  Layout left, right, result;
  Choice choice;
};

class Library {
 public:
  Library() {
    require(cublasLtCreate(&handle_), "cublasLtCreate");
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    workspace_bytes_ =
        properties.major >= 9 ? kMatmulWorkspaceBytesOfHopper : kMatmulWorkspaceBytes;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    for (const auto& [stream, data] : workspaces_) device::release(data);
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  /// `bias_gradient`: where the sums of op(right) go, if the product has them.
  Plan& plan(const Product& p, float* bias_gradient) {
    const Key key(p, p.left, p.right, p.result);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    Descriptor descriptor(p);
    // Its alignment counts in the choice, so it is there before.
    if (p.sums_right) descriptor.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_gradient);
    Plan fresh{std::move(descriptor), Layout(p.left), Layout(p.right), Layout(p.result), {}};
    fresh.choice = choice_of_shape(p, fresh.descriptor);
    if (fresh.choice.status == CUBLAS_STATUS_SUCCESS && !takes(fresh))
      fresh.choice = choose(p, fresh.descriptor, fresh.left, fresh.right, fresh.result);
    return plans_.emplace(key, std::move(fresh)).first->second;
  }

  cublasStatus_t run(const Plan& plan, const Product& p, const void* alpha, const void* beta,
                     void* c, Stream stream) {
    return cublasLtMatmul(handle_, plan.descriptor.get(), alpha, p.left.data, plan.left.get(),
                          p.right.data, plan.right.get(), beta, c, plan.result.get(), c,
                          plan.result.get(), &plan.choice.algorithm, workspace(stream),
                          static_cast<size_t>(workspace_bytes_), stream);
  }

 private:
  /// The algorithm of a shape, chosen for operands without gaps.
  const Choice& choice_of_shape(const Product& p, const Descriptor& descriptor) {
    const auto packed = [](Operand x) {
      x.ld = std::max<int64_t>(x.rows, 1);
      return x;
    };
    const Operand left = packed(p.left), right = packed(p.right), result = packed(p.result);
    const Key key(p, left, right, result);
    const auto known = choices_.find(key);
    if (known != choices_.end()) return known->second;
    const Choice choice = choose(p, descriptor, Layout(left), Layout(right), Layout(result));
    return choices_.emplace(key, choice).first->second;
  }

  Choice choose(const Product& p, const Descriptor& descriptor, const Layout& left,
                const Layout& right, const Layout& result) {
    const Preference preference(p, static_cast<uint64_t>(workspace_bytes_));
    cublasLtMatmulHeuristicResult_t found[8] = {};
    int count = 0;
    Choice choice;
    choice.status = cublasLtMatmulAlgoGetHeuristic(
        handle_, descriptor.get(), left.get(), right.get(), result.get(), result.get(),
        preference.get(), static_cast<int>(std::size(found)), found, &count);
    if (choice.status != CUBLAS_STATUS_SUCCESS) return choice;
    choice.status = CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < count; ++i) {
      if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
      choice = {CUBLAS_STATUS_SUCCESS, found[i].algo};
      break;
    }
    return choice;
  }

  /// Whether the plan's algorithm runs with the plan's leading dimensions.
  bool takes(const Plan& plan) {
    cublasLtMatmulHeuristicResult_t answer{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(
        handle_, plan.descriptor.get(), plan.left.get(), plan.right.get(), plan.result.get(),
        plan.result.get(), &plan.choice.algorithm, &answer);
    return status == CUBLAS_STATUS_SUCCESS &&
           answer.workspaceSize <= static_cast<size_t>(workspace_bytes_);
  }

  /// One a stream: products of two streams may run at the same time.
  void* workspace(Stream stream) {
    for (const auto& [owner, data] : workspaces_)
      if (owner == stream) return data;
    workspaces_.emplace_back(stream, device::allocate(workspace_bytes_, "matmul.workspace"));
    return workspaces_.back().second;
  }

  cublasLtHandle_t handle_ = nullptr;
  int64_t workspace_bytes_ = 0;
  std::vector<std::pair<Stream, void*>> workspaces_;
  std::map<Key, Choice> choices_;  // by shape: leading dimensions without gaps
  std::map<Key, Plan> plans_;      // by shape and leading dimensions
};

Library*& library() {
  static Library* instance = nullptr;
  return instance;
}
Library& open_library() {
  if (library() == nullptr) library() = new Library;
  return *library();
}

Product product(const Matmul& call) {
  Product p{};
  p.left_op = call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  p.right_op = call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  p.left = call.transpose_b ? Operand{call.b, call.k, call.n, call.ldb, call.in, call.granule}
                            : Operand{call.b, call.n, call.k, call.ldb, call.in, call.granule};
  p.right = call.transpose_a ? Operand{call.a, call.m, call.k, call.lda, call.in, call.granule}
                             : Operand{call.a, call.k, call.m, call.lda, call.in, call.granule};
  p.result = {call.c, call.n, call.m, call.ldc, call.out, call.granule};
  p.k = call.k;
  p.in = call.in;
  p.out = call.out;
  return p;
}

/// c = beta c, row by row: what is left of a product over nothing.
template <class T>
__global__ void scale_kernel(T* c, int64_t ld, int64_t columns, Acc<T> beta) {
  T* row = c + static_cast<int64_t>(blockIdx.x) * ld;
  for (int64_t j = threadIdx.x; j < columns; j += blockDim.x)
    row[j] = beta == Acc<T>(0) ? T(Acc<T>(0)) : T(beta * Acc<T>(row[j]));
}

template <class T>
void scale(const Matmul& call, Stream stream) {
  launch("matmul.scale", scale_kernel<T>, dim3(static_cast<unsigned>(call.m)), dim3(256), 0, stream,
         static_cast<T*>(call.c), call.ldc, call.n, static_cast<Acc<T>>(call.beta));
}

}  // namespace

void matmul(const Matmul& call, Stream stream) {
  ESPALIER_REQUIRE(call.m >= 0 && call.n >= 0 && call.k >= 0, "a product of {} x {} x {}", call.m,
                   call.n, call.k);
  if (call.m == 0 || call.n == 0) return;
  if (call.k == 0) {
    switch (call.out) {
      case ElementType::fp64: return scale<double>(call, stream);
      case ElementType::fp32: return scale<float>(call, stream);
      case ElementType::bf16: return scale<bf16>(call, stream);
      case ElementType::fp16: return scale<fp16>(call, stream);
    }
  }
  const Product p = product(call);
  Library& lt = open_library();
  const Plan& plan = lt.plan(p, nullptr);
  require(plan.choice.status, describe(p));
  const float alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
  const bool wide = call.in == ElementType::fp64;
  require(lt.run(plan, p, wide ? static_cast<const void*>(&call.alpha) : &alpha,
                 wide ? static_cast<const void*>(&call.beta) : &beta, call.c, stream),
          describe(p));
}

bool matmul_weight_and_bias(float* dw, int64_t lddw, float* db, const void* dy, int64_t lddy,
                            const void* x, int64_t ldx, int64_t out, int64_t in, int64_t tokens,
                            ElementType type, float* scratch, Stream stream, float beta) {
  ESPALIER_REQUIRE(type != ElementType::fp64, "a weight gradient in fp32 of {} values",
                   element_name(type));
  Matmul call;
  call.transpose_a = true;
  call.m = out;
  call.n = in;
  call.k = tokens;
  call.beta = beta;
  call.a = dy;
  call.lda = lddy;
  call.b = x;
  call.ldb = ldx;
  call.c = dw;
  call.ldc = lddw;
  call.in = type;
  call.out = ElementType::fp32;
  if (out > 0 && in > 0 && tokens > 0) {
    // dW^T [in, out] = X^T dY: dY is the right operand, and the sums over k of its op are those of
    // dY's columns.
    Product p = product(call);
    p.sums_right = true;
    Library& lt = open_library();
    Plan& plan = lt.plan(p, scratch);
    if (plan.choice.status == CUBLAS_STATUS_SUCCESS) {
      plan.descriptor.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, scratch);
      const float one = 1;
      require(lt.run(plan, p, &one, &beta, dw, stream), describe(p));
      add(db, scratch, out, stream);  // the epilogue overwrites
      return true;
    }
  }
  matmul(call, stream);
  return false;
}

std::string matmul_library() {
  const auto version = static_cast<int64_t>(cublasLtGetVersion());
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

void release_matmul() {
  delete library();
  library() = nullptr;
}

}  // namespace espalier::cuda
