// SPDX-License-Identifier: Apache-2.0
#include "layers/rope.hpp"

#include <cmath>

#include "core/error.hpp"
#include "cuda/pointwise.hpp"
#include "layers/instantiate.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

double scaled_frequency(const ModelConfig& m, double f) {
  if (m.rope_scaling == RopeScaling::linear) return f / m.rope_scaling_factor;
  if (m.rope_scaling == RopeScaling::llama3) {
    const double turns = static_cast<double>(m.rope_original_length) * f / (2.0 * M_PI);
    if (turns > m.rope_high_freq_factor) return f;
    if (turns < m.rope_low_freq_factor) return f / m.rope_scaling_factor;
    const double blend =
        (turns - m.rope_low_freq_factor) / (m.rope_high_freq_factor - m.rope_low_freq_factor);
    return (1.0 - blend) * f / m.rope_scaling_factor + blend * f;
  }
  return f;
}

}  // namespace

template <class Real>
Buffer<Real> make_rope_table(const ModelConfig& model, int64_t positions) {
  const int64_t half = model.head_dim / 2;
  std::vector<Real> table(static_cast<size_t>(positions * model.head_dim));
  for (int64_t i = 0; i < half; ++i) {
    const double f = scaled_frequency(
        model, std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / model.head_dim));
    for (int64_t p = 0; p < positions; ++p) {
      Real* row = table.data() + p * model.head_dim;
      row[i] = static_cast<Real>(std::cos(static_cast<double>(p) * f));
      row[half + i] = static_cast<Real>(std::sin(static_cast<double>(p) * f));
    }
  }
  return device_copy("rope", table);
}

template <class T>
void rope(RopeStyle style, Rotation rotation, const HeadRows<T>& rows, int64_t heads,
          int64_t head_dim, int64_t tokens, const Buffer<Acc<T>>& table, const int32_t* positions) {
  using Real = Acc<T>;
  ESPALIER_REQUIRE(rows.stride >= heads * head_dim, "rope of {} heads of {} in rows of {}", heads,
                   head_dim, rows.stride);
  if constexpr (kHasTuned<T>)
    if (takes_tuned<T>()) {
      cuda::Rope<T> call;
      call.data = rows.data;
      call.stride = rows.stride;
      call.heads = heads;
      call.head_dim = head_dim;
      call.tokens = tokens;
      call.table = table.data();
      call.positions = positions;
      call.interleaved = style == RopeStyle::interleaved;
      call.inverse = rotation == Rotation::inverse;
      return cuda::rope(call, tuned_stream());
    }
  const int64_t width = rows.stride, dim = head_dim, half = dim / 2;
  const int64_t step = style == RopeStyle::half ? 1 : 2;
  const int64_t partner = style == RopeStyle::half ? half : 1;
  const Real sign = rotation == Rotation::forward ? Real(1) : Real(-1);
  T* values = rows.data;
  const Real* angles = table.data();
  for_each_row(
      "rope", tokens, KOKKOS_LAMBDA(const Row& row) {
        const Real* cosine = angles + int64_t{positions[row.index()]} * dim;
        const Real* sine = cosine + half;
        for (int64_t h = 0; h < heads; ++h) {
          T* x = values + row.index() * width + h * dim;
          row.each(half, [=](int64_t i) {
            T* a = x + i * step;
            T* b = a + partner;
            const Real xa = Real(*a), xb = Real(*b), c = cosine[i], s = sign * sine[i];
            *a = T(xa * c - xb * s);
            *b = T(xb * c + xa * s);
          });
        }
      });
}

template Buffer<float> make_rope_table<float>(const ModelConfig&, int64_t);
template Buffer<double> make_rope_table<double>(const ModelConfig&, int64_t);
#define ESPALIER_INSTANTIATE(T)                                                             \
  template void rope<T>(RopeStyle, Rotation, const HeadRows<T>&, int64_t, int64_t, int64_t, \
                        const Buffer<Acc<T>>&, const int32_t*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
