// SPDX-License-Identifier: Apache-2.0
// The emulated cuBLASLt against loops, and what it does not let pass.
#include <cublasLt.h>

#include <cmath>
#include <random>

#include "emulator/enqueue.hpp"
#include "on_device.hpp"
#include "tensor/types.hpp"

namespace espalier::emulator {
namespace {

template <class T>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<double> = CUDA_R_64F;
template <>
constexpr cudaDataType_t kType<bf16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<fp16> = CUDA_R_16F;

/// A product by columns with all that it needs.
struct Problem {
  Problem(int64_t m_, int64_t n_, int64_t k_, bool ta_, bool tb_, cudaDataType_t in,
          cudaDataType_t out, int64_t gap)
      : m(m_),
        n(n_),
        k(k_),
        ta(ta_),
        tb(tb_),
        lda((ta_ ? k_ : m_) + gap),
        ldb((tb_ ? n_ : k_) + gap),
        ldd(m_ + gap) {
    const auto size = [](int64_t x) { return static_cast<uint64_t>(x); };
    cublasLtCreate(&handle);
    const bool wide = in == CUDA_R_64F;
    cublasLtMatmulDescCreate(&desc, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                             wide ? CUDA_R_64F : CUDA_R_32F);
    const cublasOperation_t op_a = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    cublasLtMatrixLayoutCreate(&a, in, size(ta ? k : m), size(ta ? m : k), lda);
    cublasLtMatrixLayoutCreate(&b, in, size(tb ? n : k), size(tb ? k : n), ldb);
    cublasLtMatrixLayoutCreate(&d, out, size(m), size(n), ldd);
    cublasLtMatmulPreferenceCreate(&preference);
    const uint64_t bytes = 1 << 20;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;
  ~Problem() {
    for (const cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, V value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t choose() {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &choice, &found);
  }
  int64_t m, n, k;
  bool ta, tb;
  int64_t lda, ldb, ldd;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t choice{};
};

template <class T>
std::vector<T> draw(int64_t size, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<T> x(static_cast<size_t>(size));
  for (T& v : x) v = T(static_cast<float>(random() % 1000) / 500.0f - 1.0f);
  return x;
}

/// Runs the product and compares; returns D.
template <class In, class Out>
std::vector<Out> check(Problem& p, double alpha, double beta, double tolerance) {
  const std::vector<In> a = draw<In>(p.lda * (p.ta ? p.m : p.k), 1);
  const std::vector<In> b = draw<In>(p.ldb * (p.tb ? p.k : p.n), 2);
  const std::vector<Out> before = draw<Out>(p.ldd * p.n, 3);
  const OnDevice<In> a_device(a), b_device(b);
  const OnDevice<Out> d_device(before);
  const OnDevice<char> workspace(1 << 20);
  EXPECT_EQ(p.choose(), CUBLAS_STATUS_SUCCESS);
  const float alpha32 = static_cast<float>(alpha), beta32 = static_cast<float>(beta);
  const bool wide = std::is_same_v<In, double>;
  EXPECT_EQ(
      cublasLtMatmul(p.handle, p.desc,
                     wide ? static_cast<const void*>(&alpha) : static_cast<const void*>(&alpha32),
                     a_device.data(), p.a, b_device.data(), p.b,
                     wide ? static_cast<const void*>(&beta) : static_cast<const void*>(&beta32),
                     d_device.data(), p.d, d_device.data(), p.d, &p.choice.algo, workspace.data(),
                     1 << 20, nullptr),
      CUBLAS_STATUS_SUCCESS);
  const std::vector<Out> got = d_device.values();
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.ldd; ++i) {
      const auto at = static_cast<size_t>(j * p.ldd + i);
      if (i >= p.m) {
        EXPECT_EQ(double(got[at]), double(before[at])) << "the gap";
        continue;
      }
      double sum = 0;
      for (int64_t x = 0; x < p.k; ++x)
        sum += double(a[static_cast<size_t>(p.ta ? i * p.lda + x : x * p.lda + i)]) *
               double(b[static_cast<size_t>(p.tb ? x * p.ldb + j : j * p.ldb + x)]);
      const double expected = alpha * sum + beta * double(before[at]);
      EXPECT_NEAR(double(got[at]), expected, tolerance * (1 + std::abs(expected))) << i << " " << j;
    }
  return got;
}

TEST(EmulatedCublasLt, Multiplies) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      Problem d(7, 5, 33, ta, tb, CUDA_R_64F, CUDA_R_64F, 3);
      check<double, double>(d, 0.5, 2, 1e-14);
      Problem f(7, 5, 33, ta, tb, CUDA_R_32F, CUDA_R_32F, 0);
      check<float, float>(f, 1, 0, 2e-6);
      Problem h(8, 6, 20, ta, tb, CUDA_R_16BF, CUDA_R_16BF, 8);
      check<bf16, bf16>(h, 1, 0, 1e-2);
      Problem g(8, 6, 20, ta, tb, CUDA_R_16F, CUDA_R_32F, 0);
      check<fp16, float>(g, 1, 1, 2e-6);
    }
}

TEST(EmulatedCublasLt, ChoosesByLeadingDimensionsToo) {
  bool differ = false;
  uint64_t first = 0;
  for (int64_t gap = 0; gap < 40; gap += 8) {
    Problem p(1, 64, 200, true, false, CUDA_R_32F, CUDA_R_32F, gap);
    EXPECT_EQ(p.choose(), CUBLAS_STATUS_SUCCESS);
    const uint64_t order = p.choice.algo.data[1];
    if (gap == 0) first = order;
    differ = differ || order != first;
  }
  EXPECT_TRUE(differ) << "a caller that does not keep its choice must be found out";
}

TEST(EmulatedCublasLt, SumsBiasGradients) {
  Problem p(6, 9, 31, false, false, CUDA_R_16BF, CUDA_R_32F, 0);
  const OnDevice<float> bias(9);
  p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
  p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  check<bf16, float>(p, 1, 1, 2e-6);
  const std::vector<bf16> b = draw<bf16>(31 * 9, 2);
  const std::vector<float> sums = bias.values();
  for (size_t j = 0; j < 9; ++j) {
    double expected = 0;
    for (size_t x = 0; x < 31; ++x) expected += double(b[j * 31 + x]);
    EXPECT_NEAR(sums[j], expected, 1e-5);
  }
  setenv("ESPALIER_EMULATED_EPILOGUES", "none", 1);
  EXPECT_EQ(p.choose(), CUBLAS_STATUS_NOT_SUPPORTED);
  unsetenv("ESPALIER_EMULATED_EPILOGUES");
}

TEST(EmulatedCublasLt, RefusesWhatDoesNotFit) {
  Problem p(6, 8, 16, false, false, CUDA_R_32F, CUDA_R_32F, 0);
  std::swap(p.a, p.b);
  EXPECT_EQ(p.choose(), CUBLAS_STATUS_INVALID_VALUE);
  Problem mixed(6, 8, 16, false, false, CUDA_R_32F, CUDA_R_16BF, 0);
  EXPECT_EQ(mixed.choose(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(EmulatedCublasLtDeathTest, ChecksClaims) {
  Problem p(8, 8, 16, false, false, CUDA_R_32F, CUDA_R_32F, 0);
  ASSERT_EQ(p.choose(), CUBLAS_STATUS_SUCCESS);
  const OnDevice<float> a(8 * 16), b(8 * 16), d(8 * 8 + 4);
  const OnDevice<char> workspace(1 << 20);
  const float one = 1, zero = 0;
  const auto run = [&](const float* pa, float* pd, size_t bytes) {
    cublasLtMatmul(p.handle, p.desc, &one, pa, p.a, b.data(), p.b, &zero, pd, p.d, pd, p.d,
                   &p.choice.algo, workspace.data(), bytes, nullptr);
  };
  EXPECT_DEATH(run(a.data(), d.data() + 1, 1 << 20), "chosen for C aligned to 16 bytes");
  EXPECT_DEATH(run(a.data() + 4, d.data(), 1 << 20), "A is not inside one allocation");
  float host[8 * 16];
  EXPECT_DEATH(run(host, d.data(), 1 << 20), "A is not inside one allocation");
}

}  // namespace
}  // namespace espalier::emulator
