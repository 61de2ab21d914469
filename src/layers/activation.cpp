// SPDX-License-Identifier: Apache-2.0
#include "layers/activation.hpp"

#include "blueprint/activation_plan.hpp"
#include "core/error.hpp"
#include "cuda/pointwise.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

// tanh(z) = 2 sigmoid(2z) - 1, so (1 + tanh z) / 2 = sigmoid(2z).
struct GeluTanh {
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real gate(Real u) {
    const Real z = Real(0.79788456080286535588) * (u + Real(0.044715) * u * u * u);
    return sigmoid(Real(2) * z);
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real value(Real u) {
    return u * gate(u);
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real slope(Real u) {
    const Real s = gate(u);
    const Real dz = Real(0.79788456080286535588) * (Real(1) + Real(3 * 0.044715) * u * u);
    return s + u * Real(2) * s * (Real(1) - s) * dz;
  }
};

struct Gelu {
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real value(Real u) {
    return u * normal_cdf(u);
  }
  template <class Real>
  KOKKOS_INLINE_FUNCTION static Real slope(Real u) {
    return normal_cdf(u) + u * normal_density(u);
  }
};

template <class Function, class T>
void pointwise_forward(const Mat<T>& y, const Mat<T>& up, const T* bias) {
  using Real = Acc<T>;
  const int64_t n = y.extent(1);
  T* out = y.data();
  T* in = up.data();
  for_each_row(
      "activation.forward", y.extent(0), KOKKOS_LAMBDA(const Row& row) {
        T* u = in + row.index() * n;
        T* target = out + row.index() * n;
        if (bias != nullptr)
          row.each(n, [=](int64_t j) {
            const T biased = T(Real(u[j]) + Real(bias[j]));
            u[j] = biased;
            target[j] = T(Function::value(Real(biased)));
          });
        else
          row.each(n, [=](int64_t j) { target[j] = T(Function::value(Real(u[j]))); });
      });
}

template <class Function, class T>
void pointwise_backward(const Mat<T>& d_up, const Mat<const T>& dy, const Mat<const T>& up) {
  using Real = Acc<T>;
  const int64_t n = dy.extent(1);
  T* out = d_up.data();
  const T* in = up.data();
  const T* gradient = dy.data();
  for_each_row(
      "activation.backward", dy.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const int64_t at = row.index() * n;
        T* target = out + at;
        const T* u = in + at;
        const T* g = gradient + at;
        row.each(n, [=](int64_t j) { target[j] = T(Real(g[j]) * Function::slope(Real(u[j]))); });
      });
}

template <class T>
void swiglu_forward(const Mat<T>& y, const Mat<T>& up, const T* bias) {
  using Real = Acc<T>;
  const int64_t n = y.extent(1);
  T* out = y.data();
  T* in = up.data();
  for_each_row(
      "activation.swiglu_forward", y.extent(0), KOKKOS_LAMBDA(const Row& row) {
        T* g = in + row.index() * 2 * n;
        T* u = g + n;
        T* target = out + row.index() * n;
        if (bias != nullptr)
          row.each(2 * n, [=](int64_t j) { g[j] = T(Real(g[j]) + Real(bias[j])); });
        row.each(n, [=](int64_t j) {
          const Real gate = Real(g[j]);
          target[j] = T(gate * sigmoid(gate) * Real(u[j]));
        });
      });
}

template <class T>
void swiglu_backward(const Mat<T>& d_up, const Mat<const T>& dy, const Mat<const T>& up) {
  using Real = Acc<T>;
  const int64_t n = dy.extent(1);
  T* out = d_up.data();
  const T* in = up.data();
  const T* gradient = dy.data();
  for_each_row(
      "activation.swiglu_backward", dy.extent(0), KOKKOS_LAMBDA(const Row& row) {
        const T* g = in + row.index() * 2 * n;
        const T* u = g + n;
        T* dg = out + row.index() * 2 * n;
        T* du = dg + n;
        const T* d = gradient + row.index() * n;
        row.each(n, [=](int64_t j) {
          const Real gate = Real(g[j]), s = sigmoid(gate), dj = Real(d[j]);
          du[j] = T(dj * gate * s);
          dg[j] = T(dj * Real(u[j]) * s * (Real(1) + gate * (Real(1) - s)));
        });
      });
}

}  // namespace

template <class T>
void activation_forward(Activation kind, const Mat<T>& y, const Mat<T>& up,
                        const Vec<const T>& bias) {
  const size_t width = kind == Activation::swiglu ? 2 : 1;
  ESPALIER_REQUIRE(up.extent(1) == width * y.extent(1) && up.extent(0) == y.extent(0),
                   "activation of up [{}, {}] into y [{}, {}]", up.extent(0), up.extent(1),
                   y.extent(0), y.extent(1));
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::activation_forward(kind, y.data(), up.data(), bias.data(), y.extent(0),
                                      y.extent(1), tuned_stream());
  switch (kind) {
    case Activation::gelu_tanh: pointwise_forward<GeluTanh>(y, up, bias.data()); break;
    case Activation::gelu: pointwise_forward<Gelu>(y, up, bias.data()); break;
    case Activation::swiglu: swiglu_forward(y, up, bias.data()); break;
  }
}

template <class T>
void activation_backward(Activation kind, const Mat<T>& d_up, const Mat<const T>& dy,
                         const Mat<const T>& up) {
  const size_t width = kind == Activation::swiglu ? 2 : 1;
  ESPALIER_REQUIRE(up.extent(1) == width * dy.extent(1) && d_up.extent(1) == up.extent(1),
                   "activation gradient of up [{}, {}], dy [{}, {}]", up.extent(0), up.extent(1),
                   dy.extent(0), dy.extent(1));
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>())
      return cuda::activation_backward(kind, d_up.data(), dy.data(), up.data(), dy.extent(0),
                                       dy.extent(1), tuned_stream());
  switch (kind) {
    case Activation::gelu_tanh: pointwise_backward<GeluTanh>(d_up, dy, up); break;
    case Activation::gelu: pointwise_backward<Gelu>(d_up, dy, up); break;
    case Activation::swiglu: swiglu_backward(d_up, dy, up); break;
  }
}

template <class T>
bool activation_and_bias_backward(Activation kind, const Mat<T>& d_up, const Vec<Acc<T>>& db,
                                  const Mat<const T>& dy, const Mat<const T>& up, Acc<T>* scratch) {
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>() && kind != Activation::swiglu && db.data() != nullptr &&
        scratch != nullptr) {
      const int64_t tokens = dy.extent(0), columns = dy.extent(1);
      ESPALIER_REQUIRE(up.extent(1) == dy.extent(1) && d_up.extent(1) == dy.extent(1) &&
                           db.extent(0) == dy.extent(1) &&
                           cuda::bias_gradient_scratch(tokens, columns) <= kBiasPartials * columns,
                       "activation gradient of up [{}, {}], dy [{}, {}], db [{}]", up.extent(0),
                       up.extent(1), tokens, columns, db.extent(0));
      cuda::activation_and_bias_backward(kind, d_up.data(), db.data(), dy.data(), up.data(), tokens,
                                         columns, scratch, tuned_stream());
      return true;
    }
  (void)scratch;
  activation_backward<T>(kind, d_up, dy, up);
  return false;
}

#define ESPALIER_INSTANTIATE(T)                                                                \
  template void activation_forward<T>(Activation, const Mat<T>&, const Mat<T>&,                \
                                      const Vec<const T>&);                                    \
  template void activation_backward<T>(Activation, const Mat<T>&, const Mat<const T>&,         \
                                       const Mat<const T>&);                                   \
  template bool activation_and_bias_backward<T>(Activation, const Mat<T>&, const Vec<Acc<T>>&, \
                                                const Mat<const T>&, const Mat<const T>&,      \
                                                Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
