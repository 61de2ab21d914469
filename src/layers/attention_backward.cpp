// SPDX-License-Identifier: Apache-2.0
// Backward attention on the host. The weights are computed again from the kept log_sum.
#include <cmath>

#include "core/error.hpp"
#include "layers/attention.hpp"
#include "layers/attention_tiles.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

using namespace attention_detail;

/// The panels of one query head and its key head.
template <class Real>
struct HeadPanels {
  Panel<Real> q, k, v, d_out;
  Real *dq, *dk, *dv;  // added to
  int64_t dq_stride, dk_stride, dv_stride;
  const Real* dots;     // D = d_o . o of every query
  const Real* log_sum;  // of every query
  int64_t log_sum_stride;
  const int32_t* start;  // document_start of the sequence
};

// scores -> weights p and, in place of d_weights, ds = scale p (dp - D).
template <class Real>
void weights_and_gradient(Real* p, Real* dp, int64_t keys, KeyRange range, Real scale, Real log_sum,
                          Real dot) {
  const HostRow row(0);
  for (int64_t k = 0; k < range.low; ++k) p[k] = dp[k] = 0;
  for (int64_t k = range.high; k < keys; ++k) p[k] = dp[k] = 0;
  Real* w = p + range.low;
  Real* d = dp + range.low;
  row.each(range.high - range.low, [=](int64_t k) {
    const Real weight = exp_value(w[k] * scale - log_sum);
    w[k] = weight;
    d[k] = scale * weight * (d[k] - dot);
  });
}

template <class Real>
void backward_head(const HeadPanels<Real>& head, const AttentionShape& shape,
                   const WeightDropout<Real>& dropout, Real* scores, Real* d_scores) {
  const int64_t dim = shape.head.head_dim, length = shape.length;
  const Real scale = static_cast<Real>(shape.scale);
  Real factors[kKeyTile];
  for (int64_t first = 0; first < length; first += kQueryTile) {
    const int64_t last = std::min(first + kQueryTile, length), rows = last - first;
    for_each_key_tile(head.start, first, last, [&](int64_t key_first, int64_t key_last) {
      const int64_t keys = key_last - key_first;
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, head.q.row(first),
                       head.q.stride, head.k.row(key_first), head.k.stride, 0, scores, keys);
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, head.d_out.row(first),
                       head.d_out.stride, head.v.row(key_first), head.v.stride, 0, d_scores, keys);
      for (int64_t i = 0; i < rows; ++i) {
        Real* p = scores + i * keys;
        Real* dp = d_scores + i * keys;
        const int64_t t = first + i;
        const KeyRange range = visible(head.start, t, key_first, key_last);
        if (dropout.active()) {
          dropout.fill(factors, t, key_first, range);
          multiply(dp, factors, range);
        }
        weights_and_gradient(p, dp, keys, range, scale, head.log_sum[t * head.log_sum_stride],
                             head.dots[t]);
        if (dropout.active()) multiply(p, factors, range);  // as the values were weighted
      }
      gemm<Real, Real>(Op::transpose, Op::none, keys, dim, rows, 1, scores, keys,
                       head.d_out.row(first), head.d_out.stride, 1,
                       head.dv + key_first * head.dv_stride, head.dv_stride);
      gemm<Real, Real>(Op::transpose, Op::none, keys, dim, rows, 1, d_scores, keys,
                       head.q.row(first), head.q.stride, 1, head.dk + key_first * head.dk_stride,
                       head.dk_stride);
      gemm<Real, Real>(Op::none, Op::none, rows, dim, keys, 1, d_scores, keys,
                       head.k.row(key_first), head.k.stride, 1, head.dq + first * head.dq_stride,
                       head.dq_stride);
    });
  }
}

/// Where gradients are summed: in the gradient itself when T is the sum type, else in a zeroed
/// panel.
template <class T>
Acc<T>* open_gradient(T* x, int64_t stride, int64_t rows, int64_t columns, Acc<T>* panel,
                      int64_t& panel_stride) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    for (int64_t i = 0; i < rows; ++i) std::fill(x + i * stride, x + i * stride + columns, T(0));
    panel_stride = stride;
    return x;
  } else {
    std::fill(panel, panel + rows * columns, Acc<T>(0));
    panel_stride = columns;
    return panel;
  }
}

template <class T>
void close_gradient(T* x, int64_t stride, int64_t rows, int64_t columns, const Acc<T>* panel) {
  if constexpr (!std::is_same_v<T, Acc<T>>) store_panel(x, stride, rows, columns, panel);
}

// D = d_o . o of every token. It holds with dropout too, o being what came out.
template <class T>
void dot_rows(Acc<T>* dots, const T* o, int64_t o_stride, const T* g, int64_t g_stride,
              int64_t length, int64_t dim) {
  using Real = Acc<T>;
  for (int64_t t = 0; t < length; ++t, o += o_stride, g += g_stride)
    dots[t] =
        HostRow(t).template sum<Real>(dim, [=](int64_t d) { return Real(o[d]) * Real(g[d]); });
}

}  // namespace

template <class T>
void attention_backward(const QueryKeyValue<T>& d_in, const HeadRows<const T>& d_heads,
                        const HeadRows<const T>& heads, const HeadRows<const Acc<T>>& log_sum,
                        const QueryKeyValue<const T>& in, const int32_t* document_start,
                        const AttentionShape& shape, const AttentionDropout& dropout,
                        Acc<T>* scratch) {
  using Real = Acc<T>;
  require_shapes(in, heads, log_sum, shape);
  require_shapes(d_in, d_heads, log_sum, shape);
  const HeadShape& h = shape.head;
  const int64_t dim = h.head_dim, length = shape.length, panel = length * dim;
  const int64_t group = h.heads / h.kv_heads;
  WeightDropout<Real> mask(dropout, shape);
  Real* scores = scratch;
  Real* d_scores = scores + kQueryTile * kKeyTile;
  Real* copies = scratch + 2 * kQueryTile * kKeyTile + kQueryTile * dim;
  Real* dots = copies + 7 * panel;
  const auto open = [&](const HeadRows<const T>& x, int64_t t, int64_t head, int64_t which) {
    return open_panel(at(x, t, head * dim), x.stride, length, dim, copies + which * panel);
  };
  const auto open_sum = [&](const HeadRows<T>& dx, int64_t t, int64_t head, int64_t which,
                            int64_t& stride) {
    return open_gradient(at(dx, t, head * dim), dx.stride, length, dim, copies + which * panel,
                         stride);
  };
  const auto close = [&](const HeadRows<T>& dx, int64_t t, int64_t head, const Real* sum) {
    close_gradient(at(dx, t, head * dim), dx.stride, length, dim, sum);
  };
  for (int64_t b = 0; b < shape.sequences; ++b) {
    const int64_t t = b * length;
    for (int64_t kv = 0; kv < h.kv_heads; ++kv) {
      HeadPanels<Real> p;
      p.start = document_start + t;
      p.dots = dots;
      p.log_sum_stride = log_sum.stride;
      p.k = open(in.k, t, kv, 0);
      p.v = open(in.v, t, kv, 1);
      p.dk = open_sum(d_in.k, t, kv, 4, p.dk_stride);
      p.dv = open_sum(d_in.v, t, kv, 5, p.dv_stride);
      for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        p.q = open(in.q, t, head, 2);
        p.d_out = open(d_heads, t, head, 3);
        p.dq = open_sum(d_in.q, t, head, 6, p.dq_stride);
        p.log_sum = at(log_sum, t, head);
        dot_rows<T>(dots, at(heads, t, head * dim), heads.stride, at(d_heads, t, head * dim),
                    d_heads.stride, length, dim);
        mask.select(b, head);
        backward_head<Real>(p, shape, mask, scores, d_scores);
        close(d_in.q, t, head, p.dq);
      }
      close(d_in.k, t, kv, p.dk);
      close(d_in.v, t, kv, p.dv);
    }
  }
}

#define ESPALIER_INSTANTIATE(T)                                                                \
  template void attention_backward<T>(const QueryKeyValue<T>&, const HeadRows<const T>&,       \
                                      const HeadRows<const T>&, const HeadRows<const Acc<T>>&, \
                                      const QueryKeyValue<const T>&, const int32_t*,           \
                                      const AttentionShape&, const AttentionDropout&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
