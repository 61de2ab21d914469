// SPDX-License-Identifier: Apache-2.0
// Layers by their tuned and by their portable kernels: the two must be within each other's
// rounding, the order of sums apart.
#include <gtest/gtest-spi.h>

#include <functional>
#include <memory>

#include "blueprint/activation_plan.hpp"
#include "gpu/device_rows.hpp"
#include "layers/activation.hpp"
#include "layers/embedding.hpp"
#include "layers/linear.hpp"
#include "layers/norm.hpp"
#include "layers/residual.hpp"
#include "layers/rope.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

using namespace gpu_test;

template <class T>
class BothKernels : public testing::Test {};
using Types = testing::Types<float, bf16, fp16>;
TYPED_TEST_SUITE(BothKernels, Types);

/// Device arrays of one run; what they hold at its end, in double.
class Arrays {
 public:
  explicit Arrays(uint64_t seed) : random_(seed) {}

  template <class T>
  T* input(int64_t size) {
    return keep(std::make_shared<DeviceArray<T>>(random_.template values<T>(size, -2, 2)));
  }
  int32_t* indices(int64_t size, int64_t bound) {
    std::vector<int32_t> list;
    for (int64_t i = 0; i < size; ++i) list.push_back(static_cast<int32_t>(random_.below(bound)));
    return keep(std::make_shared<DeviceArray<int32_t>>(list));
  }
  template <class T>
  T* scratch(int64_t size) {
    return keep(std::make_shared<DeviceArray<T>>(poisoned<T>(size)));
  }
  /// As input() or scratch(), and compared afterwards.
  template <class T>
  T* changed(int64_t size) {
    return noted(std::make_shared<DeviceArray<T>>(random_.template values<T>(size, -2, 2)));
  }
  template <class T>
  T* output(int64_t size) {
    return noted(std::make_shared<DeviceArray<T>>(poisoned<T>(size)));
  }

  /// Of every array to compare, its values and half an ulp of its type.
  struct Values {
    std::vector<double> values;
    double rounding;
  };
  std::vector<Values> results() const {
    std::vector<Values> all;
    for (const auto& read : reads_) all.push_back(read());
    return all;
  }

 private:
  template <class T>
  T* keep(std::shared_ptr<DeviceArray<T>> array) {
    kept_.push_back(array);
    return array->data();
  }
  template <class T>
  T* noted(std::shared_ptr<DeviceArray<T>> array) {
    reads_.push_back([array] {
      Values v{{}, kRounding<T>};
      for (const T& x : array->values()) v.values.push_back(static_cast<double>(x));
      return v;
    });
    return keep(array);
  }

  Random random_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::function<Values()>> reads_;
};

/// Runs `work` on the same inputs with both kernels. `slack`: what fp32's sums may differ by.
template <class Work>
void compare_kernels(const std::string& name, double slack, const Work& work) {
  std::vector<std::vector<Arrays::Values>> results;
  for (const bool tuned : {true, false}) {
    device::set_tuned_kernels(tuned);
    Arrays arrays(7);
    work(arrays);
    results.push_back(arrays.results());
  }
  device::set_tuned_kernels(true);
  for (size_t a = 0; a < results[0].size(); ++a)
    for (size_t i = 0; i < results[0][a].values.size(); ++i) {
      const double tuned = results[0][a].values[i], portable = results[1][a].values[i];
      ASSERT_LE(std::abs(tuned - portable), 2 * results[0][a].rounding * std::abs(portable) + slack)
          << name << ", array " << a << ", element " << i << ": " << tuned << " and " << portable;
    }
}

TYPED_TEST(BothKernels, Norms) {
  using T = TypeParam;
  for (const int64_t n : {100, 128, 768, 1601})
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
      const int64_t rows = 70;
      const auto norm = [&](Arrays& a) {
        const RowSet<T> x(a.input<T>(rows * (n + 8)), rows, n, 5, 5 * n + 40, n + 8);
        const Mat<T> y(a.output<T>(rows * n), rows, n), dx(a.output<T>(rows * n), rows, n);
        float* statistics = a.output<float>(2 * rows);
        const Vec<const T> w(a.input<T>(n), n), b(a.input<T>(n), n);
        norm_forward<T>(kind, RowSet<T>(y), statistics, x, {w, b}, 1e-3);
        const Mat<T> dy(a.input<T>(rows * n), rows, n);
        const Vec<float> dw(a.changed<float>(n), n), db(a.changed<float>(n), n);
        float* partials = a.scratch<float>(norm_partial_rows(rows) * 2 * n);
        norm_backward<T>(kind, RowSet<T>(dx), Accumulate::no, dw, db, RowSet<T>(dy), x, statistics,
                         w, partials);
        const RowSet<T> sum(a.changed<T>(rows * n + 8) + 8, rows, n, 7, 7 * n, n);
        norm_backward<T>(kind, sum, Accumulate::yes, dw, db, RowSet<T>(dy), x, statistics, w,
                         partials);
      };
      compare_kernels("norm", 3e-4, norm);
      const auto residual = [&](Arrays& a) {
        const Mat<T> stream(a.input<T>(rows * n), rows, n), delta(a.input<T>(rows * n), rows, n);
        const Mat<T> y(a.output<T>(rows * n), rows, n), x(a.output<T>(rows * n), rows, n);
        const Vec<const T> w(a.input<T>(n), n), change(a.input<T>(n), n);
        residual_norm_forward<T>(kind, y, a.output<float>(2 * rows), x, stream, delta, change,
                                 {w, {}}, 1e-3);
        residual_add<T>(y, x, delta, change, {}, nullptr);
      };
      compare_kernels("residual", 6e-5, residual);
    }
}

TYPED_TEST(BothKernels, Activations) {
  using T = TypeParam;
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu, Activation::swiglu})
    for (const int64_t n : {33, 512}) {
      const int64_t rows = 40, width = kind == Activation::swiglu ? 2 * n : n;
      compare_kernels("activation", 2e-5, [&](Arrays& a) {
        const Mat<T> up(a.changed<T>(rows * width), rows, width), y(a.output<T>(rows * n), rows, n);
        const Mat<T> d_up(a.output<T>(rows * width), rows, width),
            dy(a.input<T>(rows * n), rows, n);
        const Vec<const T> bias(a.input<T>(width), width);
        activation_forward<T>(kind, y, up, bias);
        activation_backward<T>(kind, d_up, dy, up);
      });
    }
}

// Rounded once by the tuned product, twice otherwise.
TYPED_TEST(BothKernels, LinearLayersWithBias) {
  using T = TypeParam;
  for (const int64_t out : {96, 33}) {
    const int64_t tokens = 70, in = 64;
    const double product = 64 * kRounding<T>;  // half an ulp of the largest products
    compare_kernels("linear with bias", 2e-5 + product, [&](Arrays& a) {
      const Mat<T> y(a.output<T>(tokens * out), tokens, out),
          x(a.input<T>(tokens * in), tokens, in);
      const Mat<T> w(a.input<T>(out * in), out, in);
      const Vec<const T> b(a.input<T>(out), out);
      const bool is_biased = linear_forward_with_bias<T>(y, x, w, b);
#ifdef ESPALIER_EMULATED_DEVICE
      EXPECT_EQ(is_biased, takes_tuned<T>() && kIs16Bit<T>);
#endif
      if (!is_biased) add_bias<T>(y, b);
    });
  }
}

TYPED_TEST(BothKernels, Rope) {
  using T = TypeParam;
  for (const RopeStyle style : {RopeStyle::half, RopeStyle::interleaved})
    for (const Rotation rotation : {Rotation::forward, Rotation::inverse}) {
      const int64_t tokens = 30, heads = 3, dim = 96, width = 5 * dim;
      ModelConfig model;
      model.head_dim = static_cast<int>(dim);
      compare_kernels("rope", 1e-6, [&](Arrays& a) {
        const auto table = make_rope_table<float>(model, 64);
        const HeadRows<T> rows(a.changed<T>(tokens * width), width);
        rope<T>(style, rotation, rows, heads, dim, tokens, table, a.indices(tokens, 64));
      });
    }
}

TYPED_TEST(BothKernels, BiasesAndEmbeddings) {
  using T = TypeParam;
  for (const int64_t n : {33, 768}) {
    const int64_t rows = 200, entries = 50;
    compare_kernels("bias", 2e-4, [&](Arrays& a) {
      const Mat<T> x(a.changed<T>(rows * n), rows, n);
      const Vec<T> b(a.changed<T>(n), n);
      const Vec<float> db(a.changed<float>(n), n);
      linear_backward_bias<T>(db, x, a.scratch<float>(kBiasPartials * n));
      add_bias<T>(x, b);
    });
    compare_kernels("embedding", 0.0, [&](Arrays& a) {
      const Mat<T> x(a.output<T>(rows * n), rows, n), table(a.input<T>(entries * n), entries, n);
      const Mat<T> places(a.input<T>(entries * n), entries, n);
      const Mat<float> d_table(a.changed<float>(entries * n), entries, n);
      const int32_t *tokens = a.indices(rows, 2 * entries), *positions = a.indices(rows, entries);
      embedding_forward<T>(x, table, places, tokens, positions, 25);
      embedding_backward<T>(d_table, x, tokens, 25);
    });
  }
}

// The comparison notices what is not the same: here the portable kernel gets another input.
TEST(BothKernelsControl, ADifferenceIsNoticed) {
  EXPECT_FATAL_FAILURE(
      compare_kernels("control", 6e-5,
                      [](Arrays& a) {
                        const float eps = device::uses_tuned_kernels() ? 1e-3f : 4e-1f;
                        const Mat<float> x(a.input<float>(640), 10, 64);
                        const Mat<float> y(a.output<float>(640), 10, 64);
                        const Vec<const float> w(a.input<float>(64), 64);
                        norm_forward<float>(NormKind::rmsnorm, RowSet<float>(y),
                                            a.scratch<float>(20), RowSet<float>(x), {w, {}}, eps);
                      }),
      "control");
}

}  // namespace
}  // namespace espalier
