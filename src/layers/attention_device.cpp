// SPDX-License-Identifier: Apache-2.0
// Forward attention on a device: tensor cores where cuda/ takes the call, else a team a row.
#include "layers/attention_device.hpp"

#include <cmath>

#include "cuda/attention.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

using namespace attention_detail;

template <class T>
void portable_forward(const HeadRows<T>& out, const HeadRows<Acc<T>>& log_sum,
                      const DeviceCall<T>& c) {
  using Real = Acc<T>;
  const int64_t scratch = (kDeviceTile + c.dim) * static_cast<int64_t>(sizeof(Real));
  for_each_team(
      "attention.forward", c.sequences * c.heads * c.length, scratch,
      KOKKOS_LAMBDA(const TeamRow& row) {
        const int64_t t = row.index() % c.length, head = row.index() / c.length % c.heads;
        const int64_t sequence = row.index() / c.length / c.heads, first = sequence * c.length;
        const int64_t kv = head / (c.heads / c.kv_heads);
        Real* weights = row.template scratch<Real>(kDeviceTile + c.dim);
        Real* sum = weights + kDeviceTile;
        const T* q = c.query(first + t, head);
        Real greatest = lowest_number<Real>(), denominator = 0;
        row.each(c.dim, [=](int64_t d) { sum[d] = 0; });
        for (int64_t s = c.document_start[first + t]; s <= t; s += kDeviceTile) {
          const int64_t n = t + 1 - s < kDeviceTile ? t + 1 - s : kDeviceTile;
          row.each(n,
                   [=](int64_t j) { weights[j] = c.scale * c.dot(q, c.key(first + s + j, kv)); });
          const Real top =
              row.template max<Real>(n, greatest, [=](int64_t j) { return weights[j]; });
          const Real shrink = exp_value(greatest - top);
          row.each(n, [=](int64_t j) { weights[j] = exp_value(weights[j] - top); });
          denominator = denominator * shrink +
                        row.template sum<Real>(n, [=](int64_t j) { return weights[j]; });
          greatest = top;
          row.each(n, [=](int64_t j) { weights[j] *= c.factor(sequence, head, t, s + j); });
          row.each(c.dim, [=](int64_t d) {
            Real x = sum[d] * shrink;
            for (int64_t j = 0; j < n; ++j) x += weights[j] * Real(c.value(first + s + j, kv)[d]);
            sum[d] = x;
          });
        }
        const Real inverse = Real(1) / denominator;
        T* o = out.data + (first + t) * out.stride + head * c.dim;
        row.each(c.dim, [=](int64_t d) { o[d] = T(sum[d] * inverse); });
        log_sum.data[(first + t) * log_sum.stride + head] = greatest + std::log(denominator);
      });
}

template <class T>
bool tuned_forward(const HeadRows<T>& heads, const HeadRows<float>& log_sum,
                   const QueryKeyValue<const T>& in, const int32_t* document_start,
                   const AttentionShape& shape) {
  cuda::AttentionForward<T> call;
  call.out = {heads.data, heads.stride};
  call.log_sum = {log_sum.data, log_sum.stride};
  call.q = {in.q.data, in.q.stride};
  call.k = {in.k.data, in.k.stride};
  call.v = {in.v.data, in.v.stride};
  call.document_start = document_start;
  call.sequences = shape.sequences;
  call.length = shape.length;
  call.heads = shape.head.heads;
  call.kv_heads = shape.head.kv_heads;
  call.head_dim = shape.head.head_dim;
  call.scale = static_cast<float>(shape.scale);
  if (!cuda::can_run(call)) return false;
  cuda::attention_forward(call, tuned_stream());
  return true;
}

}  // namespace

template <class T>
void attention_forward(const HeadRows<T>& heads, const HeadRows<Acc<T>>& log_sum,
                       const QueryKeyValue<const T>& in, const int32_t* document_start,
                       const AttentionShape& shape, const AttentionDropout& dropout, Acc<T>*) {
  if constexpr (kIs16Bit<T>)
    if (device::uses_tuned_kernels() && !dropout.mask.active() &&
        tuned_forward<T>(heads, log_sum, in, document_start, shape))
      return;
  portable_forward<T>(heads, log_sum, DeviceCall<T>(in, document_start, shape, dropout));
}

#define ESPALIER_INSTANTIATE(T)                                                     \
  template void attention_forward<T>(const HeadRows<T>&, const HeadRows<Acc<T>>&,   \
                                     const QueryKeyValue<const T>&, const int32_t*, \
                                     const AttentionShape&, const AttentionDropout&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
