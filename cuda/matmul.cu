// SPDX-License-Identifier: Apache-2.0
// cuBLASLt sees matrices by columns, so a row-major C = op(A) op(B) is asked of it as
// C^T = op(B)^T op(A)^T: memory, leading dimensions and transpositions stay, the operands change
// places.
#include "cuda/matmul.hpp"

#include <map>
#include <vector>

#include "core/error.hpp"
#include "cuda/launch.cuh"
#include "cuda/matmul_terms.hpp"
#include "cuda/reduction.hpp"
#include "device/device.hpp"
#include "tensor/types.hpp"

namespace espalier::cuda {
namespace {

using namespace lt;

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
    is_hopper_ = properties.major >= 9;
    workspace_bytes_ = is_hopper_ ? kMatmulWorkspaceBytesOfHopper : kMatmulWorkspaceBytes;
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    for (const auto& [stream, data] : workspaces_) device::release(data);
    plans_.clear();
    cublasLtDestroy(handle_);
  }

  /// Whether a product of these values with a bias gradient has kernels made for this device. Among
  /// those for compute capability 9.0 in cuBLASLt 13.0 (names in the library) only fp16 has them;
  /// bf16 would fall back to kernels for 8.0, which do not use this device's tensor instructions.
  bool has_bias_gradient(ElementType in) const { return !is_hopper_ || in == ElementType::fp16; }

  /// A plain product. Errors as of matmul()
  void multiply(const Product& p, const void* alpha, const void* beta, void* c, Stream stream) {
    const Plan& known = plan(p, nullptr);
    require(known.choice.status, describe(p));
    require(run(known, p, alpha, beta, c, stream), describe(p));
  }

  /// A product with an epilogue that reads or writes `vector`; false, and nothing is done, where
  /// there is none for the shape.
  bool multiply_with(const void* vector, const Product& p, const void* alpha, const void* beta,
                     void* c, Stream stream) {
    Plan& known = plan(p, vector);
    if (known.choice.status != CUBLAS_STATUS_SUCCESS) return false;
    known.descriptor.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    const cublasStatus_t status = run(known, p, alpha, beta, c, stream);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
      known.choice.status = status;  // offered by the heuristic all the same: not asked again
      return false;
    }
    require(status, describe(p));
    return true;
  }

 private:
  /// `vector`: of the epilogue, if the product has one.
  Plan& plan(const Product& p, const void* vector) {
    const Key key(p, p.left, p.right, p.result);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    Descriptor descriptor(p);
    // Its alignment counts in the choice, so it is there before.
    if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
      descriptor.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
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
  bool is_hopper_ = false;  // or later
  int64_t workspace_bytes_ = 0;
  std::vector<std::pair<Stream, void*>> workspaces_;
  std::map<Key, Choice> choices_;  // by shape: leading dimensions without gaps
  std::map<Key, Plan> plans_;      // by shape and leading dimensions
};

Library*& instance() {
  static Library* library = nullptr;
  return library;
}
Library& open_library() {
  if (instance() == nullptr) instance() = new Library;
  return *instance();
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
  p.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
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
  const float alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
  const bool wide = call.in == ElementType::fp64;
  open_library().multiply(product(call), wide ? static_cast<const void*>(&call.alpha) : &alpha,
                          wide ? static_cast<const void*>(&call.beta) : &beta, call.c, stream);
}

bool matmul_with_bias(const Matmul& call, const void* bias, Stream stream) {
  ESPALIER_REQUIRE(call.granule == 0 && call.in != ElementType::fp64,
                   "a product of {} values with a bias, granule {}", element_name(call.in),
                   call.granule);
  // Part of the choice, which the biases of all layers of a shape share.
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(bias));
  if (alignment(address) < kMostAlignment || call.m == 0 || call.n == 0 || call.k == 0)
    return false;
  Product p = product(call);
  p.epilogue = CUBLASLT_EPILOGUE_BIAS;  // C^T has n rows, and the vector runs along them
  const float alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
  return open_library().multiply_with(bias, p, &alpha, &beta, call.c, stream);
}

bool matmul_weight_and_bias(float* dw, int64_t lddw, float* db, const void* dy, int64_t lddy,
                            const void* x, int64_t ldx, int64_t out, int64_t in, int64_t tokens,
                            ElementType type, float* scratch, Stream stream, BiasGradient way,
                            float beta) {
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
  Library& library = open_library();
  const bool tries = way == BiasGradient::epilogue || library.has_bias_gradient(type);
  if (tries && out > 0 && in > 0 && tokens > 0) {
    // dW^T [in, out] = X^T dY: dY is the right operand, and the sums over k of its op are those of
    // dY's columns.
    Product p = product(call);
    p.epilogue = CUBLASLT_EPILOGUE_BGRADB;
    const float one = 1;
    if (library.multiply_with(scratch, p, &one, &beta, dw, stream)) {
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
  delete instance();
  instance() = nullptr;
}

}  // namespace espalier::cuda
