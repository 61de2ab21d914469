// SPDX-License-Identifier: Apache-2.0
// Products on the device, and what the run header says of them.
#include <algorithm>

#include "cuda/matmul.hpp"
#include "tensor/gemm.hpp"
#include "tensor/views.hpp"

namespace espalier {

template <class T, class C>
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, Acc<T> alpha, const T* a, int64_t lda,
          const T* b, int64_t ldb, Acc<T> beta, C* c, int64_t ldc, int64_t granule) {
  if (m == 0 || n == 0) return;
  cuda::Matmul call;
  call.transpose_a = op_a == Op::transpose;
  call.transpose_b = op_b == Op::transpose;
  call.m = m;
  call.n = n;
  call.k = k;
  call.alpha = static_cast<double>(alpha);
  call.beta = static_cast<double>(beta);
  call.a = a;
  call.b = b;
  call.c = c;
  call.lda = lda;
  call.ldb = ldb;
  call.ldc = ldc;
  call.in = ElementTraits<T>::kType;
  call.out = ElementTraits<C>::kType;
  call.granule = granule;
  cuda::matmul(call, device::Stream::current().handle());
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
  return cuda::matmul_library();
}

void set_gemm_threads(int) {}

void release_gemm() {
  cuda::release_matmul();
}

namespace {

// Zeros would use less power than numbers do, and so a higher clock.
template <class T>
void fill_with_numbers(const Buffer<T>& x) {
  std::vector<T> values(static_cast<size_t>(x.size()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = T(static_cast<Acc<T>>(random_normal(1, 2, i % 4096)));
  device::copy_and_wait(x.data(), values.data(), x.bytes());
}

template <class T>
double measure(int64_t n, double seconds) {
  const Buffer<T> a("gemm.a", n * n), b("gemm.b", n * n), c("gemm.c", n * n);
  fill_with_numbers(a);
  fill_with_numbers(b);
  const auto multiply = [&] {
    gemm<T, T>(Op::none, Op::transpose, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  };
  multiply();
  constexpr int kProducts = 8;  // between two events, so that starting them costs nothing
  double best = 0.0, spent = 0.0;
  do {
    device::Event from(device::Event::Timing::yes), to(device::Event::Timing::yes);
    from.record();
    for (int i = 0; i < kProducts; ++i) multiply();
    to.record();
    to.wait();
    const double took = device::Event::seconds(from, to);
    best = std::max(best, kProducts * 2.0 * static_cast<double>(n) * n * n / took);
    spent += std::max(took, 1e-4);
  } while (spent < seconds);
  return best;
}

}  // namespace

double measure_gemm_rate(ElementType type, int64_t n, double seconds) {
  switch (type) {
    case ElementType::fp32: return measure<float>(n, seconds);
    case ElementType::fp64: return measure<double>(n, seconds);
    case ElementType::bf16: return measure<bf16>(n, seconds);
    case ElementType::fp16: return measure<fp16>(n, seconds);
  }
  return 0.0;
}

double nominal_core_peak() {
  return 0.0;
}

}  // namespace espalier
