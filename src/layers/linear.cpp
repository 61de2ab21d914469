// SPDX-License-Identifier: Apache-2.0
#include "layers/linear.hpp"

#include "blueprint/activation_plan.hpp"
#include "core/error.hpp"
#include "cuda/matmul.hpp"
#include "cuda/pointwise.hpp"
#include "layers/instantiate.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

template <class T>
void check_extents(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w) {
  ESPALIER_REQUIRE(
      w.extent(1) == x.extent(1) && y.extent(0) == x.extent(0) && y.extent(1) == w.extent(0),
      "linear_forward of x [{}, {}], w [{}, {}], y [{}, {}]", x.extent(0), x.extent(1), w.extent(0),
      w.extent(1), y.extent(0), y.extent(1));
}

}  // namespace

template <class T>
void linear_forward(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w, Write write) {
  const int64_t tokens = x.extent(0), in = x.extent(1), out = w.extent(0);
  check_extents(y, x, w);
  gemm<T, T>(Op::none, Op::transpose, tokens, out, in, 1, x.data(), in, w.data(), in,
             write == Write::add ? 1 : 0, y.data(), out);
}

template <class T>
bool linear_forward_with_bias(const Mat<T>& y, const Mat<const T>& x, const Mat<const T>& w,
                              const Vec<const T>& b) {
  if constexpr (kHasTuned<T> && kIs16Bit<T>) {
    if (takes_tuned<T>() && b.data() != nullptr) {
      cuda::Matmul call;
      call.transpose_b = true;
      call.m = static_cast<int64_t>(x.extent(0));
      call.n = static_cast<int64_t>(w.extent(0));
      call.k = static_cast<int64_t>(x.extent(1));
      call.a = x.data();
      call.b = w.data();
      call.c = y.data();
      call.lda = call.ldb = call.k;
      call.ldc = call.n;
      call.in = call.out = ElementTraits<T>::kType;
      check_extents(y, x, w);
      ESPALIER_REQUIRE(static_cast<int64_t>(b.extent(0)) == call.n, "bias [{}] of {} outputs",
                       b.extent(0), call.n);
      if (cuda::matmul_with_bias(call, b.data(), tuned_stream())) return true;
    }
  }
  linear_forward<T>(y, x, w);
  return false;
}

template <class T>
void linear_backward_input(const Mat<T>& dx, const Mat<const T>& dy, const Mat<const T>& w,
                           Write write) {
  const int64_t tokens = dy.extent(0), out = dy.extent(1), in = w.extent(1);
  ESPALIER_REQUIRE(static_cast<int64_t>(w.extent(0)) == out &&
                       static_cast<int64_t>(dx.extent(0)) == tokens &&
                       static_cast<int64_t>(dx.extent(1)) == in,
                   "linear_backward_input of dy [{}, {}], w [{}, {}], dx [{}, {}]", tokens, out,
                   w.extent(0), in, dx.extent(0), dx.extent(1));
  gemm<T, T>(Op::none, Op::none, tokens, in, out, 1, dy.data(), out, w.data(), in,
             write == Write::add ? 1 : 0, dx.data(), in);
}

template <class T>
void linear_backward_weight(const Mat<Acc<T>>& dw, const Mat<const T>& dy, const Mat<const T>& x,
                            Write write) {
  const int64_t tokens = dy.extent(0), out = dy.extent(1), in = x.extent(1);
  ESPALIER_REQUIRE(static_cast<int64_t>(x.extent(0)) == tokens &&
                       static_cast<int64_t>(dw.extent(0)) == out &&
                       static_cast<int64_t>(dw.extent(1)) == in,
                   "linear_backward_weight of dy [{}, {}], x [{}, {}], dw [{}, {}]", tokens, out,
                   x.extent(0), in, dw.extent(0), dw.extent(1));
  gemm<T, Acc<T>>(Op::transpose, Op::none, out, in, tokens, 1, dy.data(), out, x.data(), in,
                  write == Write::add ? 1 : 0, dw.data(), in);
}

template <class T>
void linear_backward_bias(const Vec<Acc<T>>& db, const Mat<const T>& dy, Acc<T>* scratch) {
  const int64_t tokens = dy.extent(0), out = dy.extent(1);
  ESPALIER_REQUIRE(static_cast<int64_t>(db.extent(0)) == out, "bias gradient [{}], dy [{}, {}]",
                   db.extent(0), tokens, out);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>() && scratch != nullptr) {
      ESPALIER_REQUIRE(cuda::bias_gradient_scratch(tokens, out) <= kBiasPartials * out,
                       "a bias gradient of [{}, {}] wants more scratch than planned", tokens, out);
      return cuda::bias_gradient(db.data(), dy.data(), tokens, out, scratch, tuned_stream());
    }
  (void)scratch;
  const T* source = dy.data();
  Acc<T>* target = db.data();
  for_each_column_tile(
      "linear.bias_gradient", out, KOKKOS_LAMBDA(const int64_t first, const int64_t last) {
        Acc<T> sum[kColumnTile] = {};
        if (last - first == kColumnTile) {
          for (int64_t i = 0; i < tokens; ++i) {
            const T* row = source + i * out + first;
            for (int64_t j = 0; j < kColumnTile; ++j) sum[j] += Acc<T>(row[j]);
          }
        } else {
          for (int64_t i = 0; i < tokens; ++i) {
            const T* row = source + i * out + first;
            for (int64_t j = 0; j < last - first; ++j) sum[j] += Acc<T>(row[j]);
          }
        }
        for (int64_t j = 0; j < last - first; ++j) target[first + j] += sum[j];
      });
}

template <class T>
void linear_backward(const Mat<Acc<T>>& dw, const Vec<Acc<T>>& db, const Mat<const T>& dy,
                     const Mat<const T>& x, Acc<T>* scratch, Write write) {
  bool is_done = db.data() == nullptr;
  if constexpr (kHasTuned<T> && kIs16Bit<T>) {
    if (takes_tuned<T>() && !is_done) {
      const int64_t tokens = dy.extent(0), out = dy.extent(1), in = x.extent(1);
      is_done =
          cuda::matmul_weight_and_bias(dw.data(), in, db.data(), dy.data(), out, x.data(), in, out,
                                       in, tokens, ElementTraits<T>::kType, scratch, tuned_stream(),
                                       cuda::BiasGradient::automatic, write == Write::add ? 1 : 0);
      if (!is_done) linear_backward_bias<T>(db, dy, scratch);
      return;
    }
  }
  linear_backward_weight<T>(dw, dy, x, write);
  if (!is_done) linear_backward_bias<T>(db, dy, scratch);
}

template <class T>
void add_bias(const Mat<T>& x, const Vec<const T>& b) {
  const int64_t columns = x.extent(1);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::add_bias(x.data(), b.data(), x.extent(0), columns, tuned_stream());
  T* values = x.data();
  const T* bias = b.data();
  for_each_row(
      "linear.add_bias", x.extent(0), KOKKOS_LAMBDA(const Row& row) {
        T* target = values + row.index() * columns;
        row.each(columns, [=](int64_t j) { target[j] = T(Acc<T>(target[j]) + Acc<T>(bias[j])); });
      });
}

#define ESPALIER_INSTANTIATE(T)                                                                    \
  template void linear_forward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, Write); \
  template bool linear_forward_with_bias<T>(const Mat<T>&, const Mat<const T>&,                    \
                                            const Mat<const T>&, const Vec<const T>&);             \
  template void linear_backward_input<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&,  \
                                         Write);                                                   \
  template void linear_backward_weight<T>(const Mat<Acc<T>>&, const Mat<const T>&,                 \
                                          const Mat<const T>&, Write);                             \
  template void linear_backward_bias<T>(const Vec<Acc<T>>&, const Mat<const T>&, Acc<T>*);         \
  template void linear_backward<T>(const Mat<Acc<T>>&, const Vec<Acc<T>>&, const Mat<const T>&,    \
                                   const Mat<const T>&, Acc<T>*, Write);                           \
  template void add_bias<T>(const Mat<T>&, const Vec<const T>&);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
