// SPDX-License-Identifier: Apache-2.0
// Backward attention on a device: a row's dots, then a team a query for dq and a team a key for dk
// and dv, so that nothing is added by two teams.
#include "cuda/attention.hpp"
#include "layers/attention_device.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"
#include "tensor/tuned.hpp"

namespace espalier {
namespace {

using namespace attention_detail;

/// What the backward kernels read beside the call.
template <class T>
struct Gradients {
  HeadRows<const T> d_out, out;
  HeadRows<const Acc<T>> log_sum;
  Acc<T>* dots;  // [tokens, heads]: d_out . out of every query
  QueryKeyValue<T> d_in;
};

template <class T>
void portable_dots(const Gradients<T>& g, const DeviceCall<T>& c) {
  for_each(
      "attention.dots", c.sequences * c.length * c.heads, KOKKOS_LAMBDA(const int64_t i) {
        const int64_t token = i / c.heads, at = i % c.heads * c.dim;
        g.dots[i] = c.dot(g.d_out.data + token * g.d_out.stride + at,
                          g.out.data + token * g.out.stride + at);
      });
}

// ds = scale p (m dp - D) of query t on key s, and p m, both for the same sequence.
template <class T>
KOKKOS_INLINE_FUNCTION void weight_and_gradient(const Gradients<T>& g, const DeviceCall<T>& c,
                                                int64_t sequence, int64_t head, int64_t t,
                                                int64_t s, Acc<T>* weight, Acc<T>* gradient) {
  using Real = Acc<T>;
  const int64_t token = sequence * c.length + t, other = sequence * c.length + s;
  const int64_t kv = head / (c.heads / c.kv_heads);
  const Real p = exp_value(c.scale * c.dot(c.query(token, head), c.key(other, kv)) -
                           g.log_sum.data[token * g.log_sum.stride + head]);
  const Real m = c.factor(sequence, head, t, s);
  const Real dp =
      m * c.dot(g.d_out.data + token * g.d_out.stride + head * c.dim, c.value(other, kv));
  *weight = p * m;
  *gradient = c.scale * p * (dp - g.dots[token * c.heads + head]);
}

template <class T>
void portable_queries(const Gradients<T>& g, const DeviceCall<T>& c) {
  using Real = Acc<T>;
  const int64_t scratch = (kDeviceTile + c.dim) * static_cast<int64_t>(sizeof(Real));
  for_each_team(
      "attention.dq", c.sequences * c.heads * c.length, scratch, KOKKOS_LAMBDA(const TeamRow& row) {
        const int64_t t = row.index() % c.length, head = row.index() / c.length % c.heads;
        const int64_t sequence = row.index() / c.length / c.heads, first = sequence * c.length;
        const int64_t kv = head / (c.heads / c.kv_heads);
        Real* ds = row.template scratch<Real>(kDeviceTile + c.dim);
        Real* sum = ds + kDeviceTile;
        row.each(c.dim, [=](int64_t d) { sum[d] = 0; });
        for (int64_t s = c.document_start[first + t]; s <= t; s += kDeviceTile) {
          const int64_t n = t + 1 - s < kDeviceTile ? t + 1 - s : kDeviceTile;
          row.each(n, [=](int64_t j) {
            Real weight;
            weight_and_gradient<T>(g, c, sequence, head, t, s + j, &weight, ds + j);
          });
          row.each(c.dim, [=](int64_t d) {
            Real x = sum[d];
            for (int64_t j = 0; j < n; ++j) x += ds[j] * Real(c.key(first + s + j, kv)[d]);
            sum[d] = x;
          });
        }
        T* dq = g.d_in.q.data + (first + t) * g.d_in.q.stride + head * c.dim;
        row.each(c.dim, [=](int64_t d) { dq[d] = T(sum[d]); });
      });
}

template <class T>
void portable_keys(const Gradients<T>& g, const DeviceCall<T>& c) {
  using Real = Acc<T>;
  const int64_t scratch = 2 * (kDeviceTile + c.dim) * static_cast<int64_t>(sizeof(Real));
  for_each_team(
      "attention.dk_dv", c.sequences * c.kv_heads * c.length, scratch,
      KOKKOS_LAMBDA(const TeamRow& row) {
        const int64_t s = row.index() % c.length, kv = row.index() / c.length % c.kv_heads;
        const int64_t sequence = row.index() / c.length / c.kv_heads, first = sequence * c.length;
        const int64_t group = c.heads / c.kv_heads;
        Real* ds = row.template scratch<Real>(2 * (kDeviceTile + c.dim));
        Real *weights = ds + kDeviceTile, *dk = weights + kDeviceTile, *dv = dk + c.dim;
        row.each(c.dim, [=](int64_t d) { dk[d] = dv[d] = 0; });
        for (int64_t head = kv * group; head < (kv + 1) * group; ++head)
          for (int64_t t = s; t < c.length; t += kDeviceTile) {
            const int64_t n = c.length - t < kDeviceTile ? c.length - t : kDeviceTile;
            row.each(n, [=](int64_t j) {
              ds[j] = weights[j] = 0;
              if (c.document_start[first + t + j] <= s)
                weight_and_gradient<T>(g, c, sequence, head, t + j, s, weights + j, ds + j);
            });
            row.each(c.dim, [=](int64_t d) {
              Real x = dk[d], y = dv[d];
              for (int64_t j = 0; j < n; ++j) {
                const int64_t token = first + t + j;
                x += ds[j] * Real(c.query(token, head)[d]);
                y += weights[j] * Real(g.d_out.data[token * g.d_out.stride + head * c.dim + d]);
              }
              dk[d] = x;
              dv[d] = y;
            });
          }
        T* key = g.d_in.k.data + (first + s) * g.d_in.k.stride + kv * c.dim;
        T* value = g.d_in.v.data + (first + s) * g.d_in.v.stride + kv * c.dim;
        row.each(c.dim, [=](int64_t d) {
          key[d] = T(dk[d]);
          value[d] = T(dv[d]);
        });
      });
}

template <class T>
bool tuned_backward(const Gradients<T>& g, const QueryKeyValue<const T>& in,
                    const int32_t* document_start, const AttentionShape& shape) {
  cuda::AttentionBackward<T> call;
  call.dq = {g.d_in.q.data, g.d_in.q.stride};
  call.dk = {g.d_in.k.data, g.d_in.k.stride};
  call.dv = {g.d_in.v.data, g.d_in.v.stride};
  call.d_out = {g.d_out.data, g.d_out.stride};
  call.out = {g.out.data, g.out.stride};
  call.log_sum = {g.log_sum.data, g.log_sum.stride};
  call.q = {in.q.data, in.q.stride};
  call.k = {in.k.data, in.k.stride};
  call.v = {in.v.data, in.v.stride};
  call.document_start = document_start;
  call.scratch = g.dots;
  call.sequences = shape.sequences;
  call.length = shape.length;
  call.heads = shape.head.heads;
  call.kv_heads = shape.head.kv_heads;
  call.head_dim = shape.head.head_dim;
  call.scale = static_cast<float>(shape.scale);
  if (!cuda::can_run(call)) return false;
  cuda::attention_backward(call, tuned_stream());
  return true;
}

}  // namespace

template <class T>
void attention_backward(const QueryKeyValue<T>& d_in, const HeadRows<const T>& d_heads,
                        const HeadRows<const T>& heads, const HeadRows<const Acc<T>>& log_sum,
                        const QueryKeyValue<const T>& in, const int32_t* document_start,
                        const AttentionShape& shape, const AttentionDropout& dropout,
                        Acc<T>* scratch) {
  const Gradients<T> g{d_heads, heads, log_sum, scratch, d_in};
  if constexpr (kIs16Bit<T>)
    if (device::uses_tuned_kernels() && !dropout.mask.active() &&
        tuned_backward<T>(g, in, document_start, shape))
      return;
  const DeviceCall<T> call(in, document_start, shape, dropout);
  portable_dots<T>(g, call);
  portable_queries<T>(g, call);
  portable_keys<T>(g, call);
}

#define ESPALIER_INSTANTIATE(T)                                                                \
  template void attention_backward<T>(const QueryKeyValue<T>&, const HeadRows<const T>&,       \
                                      const HeadRows<const T>&, const HeadRows<const Acc<T>>&, \
                                      const QueryKeyValue<const T>&, const int32_t*,           \
                                      const AttentionShape&, const AttentionDropout&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
