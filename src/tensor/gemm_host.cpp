// SPDX-License-Identifier: Apache-2.0
#include "tensor/gemm.hpp"

#include <fmt/format.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef ESPALIER_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <sstream>
#include <vector>

#include "core/error.hpp"
#include "tensor/rows.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
            const double*, const int*, const double*, const int*, const double*, double*,
            const int*);
// Present in an OpenMP runtime; the library's threads follow it.
void omp_set_num_threads(int) __attribute__((weak));
}

namespace espalier {
namespace {

int blas_int(int64_t value) {
  ESPALIER_REQUIRE(value >= 0 && value <= std::numeric_limits<int>::max(),
                   "a matrix dimension of {} does not fit the BLAS's integers", value);
  return static_cast<int>(value);
}

char letter(Op op) {
  return op == Op::none ? 'N' : 'T';
}

// Row-major C = A B is column-major C' = B' A'.
void host_gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
               int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  const char ta = letter(op_a), tb = letter(op_b);
  const int im = blas_int(m), in = blas_int(n), ik = blas_int(k);
  const int ia = blas_int(lda), ib = blas_int(ldb), ic = blas_int(ldc);
  dgemm_(&tb, &ta, &in, &im, &ik, &alpha, b, &ib, a, &ia, &beta, c, &ic);
}

void host_gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
               int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
#ifdef ESPALIER_HAVE_ONEDNN
  const dnnl_status_t status =
      dnnl_sgemm(letter(op_a), letter(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  ESPALIER_REQUIRE(status == dnnl_success, "dnnl_sgemm of {} x {} x {} returned {}", m, n, k,
                   static_cast<int>(status));
#else
  const char ta = letter(op_a), tb = letter(op_b);
  const int im = blas_int(m), in = blas_int(n), ik = blas_int(k);
  const int ia = blas_int(lda), ib = blas_int(ldb), ic = blas_int(ldc);
  sgemm_(&tb, &ta, &in, &im, &ik, &alpha, b, &ib, a, &ia, &beta, c, &ic);
#endif
}

// Widened copies of 16-bit operands; grows to the largest product of the run and stays.
class Scratch {
 public:
  float* get(int slot, int64_t count) {
    auto& buffer = buffers_[slot];
    if (buffer.size() < count) buffer = Buffer<float>("gemm.scratch", count, Contents::undefined);
    return buffer.data();
  }

 private:
  Buffer<float> buffers_[3];
};

Scratch& scratch() {
  static Scratch instance;
  return instance;
}

template <class From, class To>
void convert(int64_t rows, int64_t columns, const From* from, int64_t ld_from, To* to,
             int64_t ld_to) {
  for_each_row(
      "gemm.convert", rows, KOKKOS_LAMBDA(const Row& row) {
        const From* source = from + row.index() * ld_from;
        To* target = to + row.index() * ld_to;
        row.each(columns, [=](int64_t j) { target[j] = To(float(source[j])); });
      });
}

template <class T>
float* widen(int slot, Op op, int64_t rows, int64_t columns, const T* x, int64_t ld,
             int64_t& packed_ld) {
  if (op == Op::transpose) std::swap(rows, columns);
  float* wide = scratch().get(slot, rows * columns);
  convert(rows, columns, x, ld, wide, columns);
  packed_ld = columns;
  return wide;
}

}  // namespace

template <class T, class C>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, Acc<T> alpha, const T* a, int64_t lda,
          const T* b, int64_t ldb, Acc<T> beta, C* c, int64_t ldc, int64_t) {
  if (m == 0 || n == 0) return;
  if constexpr (std::is_same_v<T, Acc<T>>) {
    host_gemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  } else {
    int64_t wide_lda = 0, wide_ldb = 0;
    const float* wide_a = widen(0, op_a, m, k, a, lda, wide_lda);
    const float* wide_b = widen(1, op_b, k, n, b, ldb, wide_ldb);
    if constexpr (std::is_same_v<C, float>) {
      host_gemm(op_a, op_b, m, n, k, alpha, wide_a, wide_lda, wide_b, wide_ldb, beta, c, ldc);
    } else {
      float* wide_c = scratch().get(2, m * n);
      if (beta != 0.0f) convert(m, n, c, ldc, wide_c, n);
      host_gemm(op_a, op_b, m, n, k, alpha, wide_a, wide_lda, wide_b, wide_ldb, beta, wide_c, n);
      convert(m, n, wide_c, n, c, ldc);
    }
  }
}

#define ESPALIER_INSTANTIATE_GEMM(T, C)                                                            \
  template void gemm<T, C>(Op, Op, int64_t, int64_t, int64_t, Acc<T>, const T*, int64_t, const T*, \
                           int64_t, Acc<T>, C*, int64_t, int64_t);
ESPALIER_INSTANTIATE_GEMM(float, float)
ESPALIER_INSTANTIATE_GEMM(double, double)
ESPALIER_INSTANTIATE_GEMM(bf16, bf16)
ESPALIER_INSTANTIATE_GEMM(fp16, fp16)
ESPALIER_INSTANTIATE_GEMM(bf16, float)
ESPALIER_INSTANTIATE_GEMM(fp16, float)
#undef ESPALIER_INSTANTIATE_GEMM

std::string gemm_library() {
#ifdef ESPALIER_HAVE_ONEDNN
  const dnnl_version_t* v = dnnl_version();
  const char* kernel = "unknown kernel";
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41: kernel = "SSE4.1"; break;
    case dnnl_cpu_isa_avx: kernel = "AVX"; break;
    case dnnl_cpu_isa_avx2: kernel = "AVX2"; break;
    case dnnl_cpu_isa_avx512_core: kernel = "AVX-512"; break;
    case dnnl_cpu_isa_avx512_core_vnni: kernel = "AVX-512 VNNI"; break;
    case dnnl_cpu_isa_avx512_core_bf16: kernel = "AVX-512 BF16"; break;
    default: break;
  }
  return fmt::format("oneDNN {}.{}.{}, {} kernel", v->major, v->minor, v->patch, kernel);
#else
  return "BLAS (sgemm_), kernel chosen by the library";
#endif
}

void release_gemm() {}

void set_gemm_threads(int threads) {
  if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
}

double measure_gemm_rate(ElementType, int64_t n, double seconds) {
  std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f), c(n * n);
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double best = 0.0;
  do {
    const auto start = Clock::now();
    host_gemm(Op::none, Op::transpose, n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * static_cast<double>(n) * n * n / took);
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return best;
}

double nominal_core_peak() {
  std::ifstream info("/proc/cpuinfo");
  double mhz = 0.0;
  bool avx512 = false, avx2 = false;
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("cpu MHz", 0) == 0)
      mhz = std::max(mhz, std::stod(line.substr(line.find(':') + 1)));
    if (line.rfind("flags", 0) == 0) {
      avx512 = line.find(" avx512f") != std::string::npos;
      avx2 = line.find(" avx2") != std::string::npos;
      break;
    }
  }
  // Two fused multiply-adds of 256 bits a cycle: what the slower AVX-512 processors reach too.
  const double per_cycle = avx512 || avx2 ? 32.0 : 8.0;
  return mhz * 1e6 * per_cycle;
}

}  // namespace espalier
