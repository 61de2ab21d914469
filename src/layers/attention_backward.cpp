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
  int64_t dq_stride, dkv_stride;
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
void backward_head(const HeadPanels<Real>& head, const Real* dots, const Real* log_sum,
                   int64_t log_sum_stride, const int32_t* start, const AttentionShape& shape,
                   Real* scores, Real* d_scores) {
  const int64_t dim = shape.head.head_dim, length = shape.length;
  const Real scale = static_cast<Real>(shape.scale);
  for (int64_t first = 0; first < length; first += kQueryTile) {
    const int64_t last = std::min(first + kQueryTile, length), rows = last - first;
    for_each_key_tile(start, first, last, [&](int64_t key_first, int64_t key_last) {
      const int64_t keys = key_last - key_first;
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, head.q.row(first),
                       head.q.stride, head.k.row(key_first), head.k.stride, 0, scores, keys);
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, head.d_out.row(first),
                       head.d_out.stride, head.v.row(key_first), head.v.stride, 0, d_scores, keys);
      for (int64_t i = 0; i < rows; ++i)
        weights_and_gradient(scores + i * keys, d_scores + i * keys, keys,
                             visible(start, first + i, key_first, key_last), scale,
                             log_sum[(first + i) * log_sum_stride], dots[first + i]);
      gemm<Real, Real>(Op::transpose, Op::none, keys, dim, rows, 1, scores, keys,
                       head.d_out.row(first), head.d_out.stride, 1,
                       head.dv + key_first * head.dkv_stride, head.dkv_stride);
      gemm<Real, Real>(Op::transpose, Op::none, keys, dim, rows, 1, d_scores, keys,
                       head.q.row(first), head.q.stride, 1, head.dk + key_first * head.dkv_stride,
                       head.dkv_stride);
      gemm<Real, Real>(Op::none, Op::none, rows, dim, keys, 1, d_scores, keys,
                       head.k.row(key_first), head.k.stride, 1, head.dq + first * head.dq_stride,
                       head.dq_stride);
    });
  }
}

/// Where gradients are summed: in d_qkv itself when T is the sum type, else in a zeroed panel.
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

}  // namespace

template <class T>
void attention_backward(const Mat<T>& d_qkv, const Mat<const T>& d_heads, const Mat<const T>& heads,
                        const Mat<const Acc<T>>& log_sum, const Mat<const T>& qkv,
                        const int32_t* document_start, const AttentionShape& shape,
                        Acc<T>* scratch) {
  using Real = Acc<T>;
  const HeadShape& h = shape.head;
  const int64_t width = h.row(), dim = h.head_dim, length = shape.length, panel = length * dim;
  const int64_t out_width = h.heads * dim, group = h.heads / h.kv_heads;
  ESPALIER_REQUIRE(d_qkv.extent(1) == qkv.extent(1) &&
                       static_cast<int64_t>(qkv.extent(1)) == width &&
                       d_heads.extent(1) == heads.extent(1),
                   "attention gradient of qkv [{}, {}]", qkv.extent(0), qkv.extent(1));
  Real* scores = scratch;
  Real* d_scores = scores + kQueryTile * kKeyTile;
  Real* copies = scratch + 2 * kQueryTile * kKeyTile + kQueryTile * dim;
  Real* dots = copies + 7 * panel;
  for (int64_t b = 0; b < shape.sequences; ++b) {
    const T* base = qkv.data() + b * length * width;
    T* d_base = d_qkv.data() + b * length * width;
    for (int64_t kv = 0; kv < h.kv_heads; ++kv) {
      const int64_t k_at = (h.heads + kv) * dim, v_at = (h.heads + h.kv_heads + kv) * dim;
      HeadPanels<Real> p;
      p.k = open_panel(base + k_at, width, length, dim, copies);
      p.v = open_panel(base + v_at, width, length, dim, copies + panel);
      p.dk = open_gradient(d_base + k_at, width, length, dim, copies + 4 * panel, p.dkv_stride);
      p.dv = open_gradient(d_base + v_at, width, length, dim, copies + 5 * panel, p.dkv_stride);
      for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        const T* out = heads.data() + b * length * out_width + head * dim;
        const T* d_out = d_heads.data() + b * length * out_width + head * dim;
        p.q = open_panel(base + head * dim, width, length, dim, copies + 2 * panel);
        p.d_out = open_panel(d_out, out_width, length, dim, copies + 3 * panel);
        p.dq =
            open_gradient(d_base + head * dim, width, length, dim, copies + 6 * panel, p.dq_stride);
        for (int64_t t = 0; t < length; ++t) {
          const T* o = out + t * out_width;
          const T* g = d_out + t * out_width;
          dots[t] = HostRow(t).template sum<Real>(
              dim, [=](int64_t d) { return Real(o[d]) * Real(g[d]); });
        }
        backward_head<Real>(p, dots, log_sum.data() + b * length * h.heads + head, h.heads,
                            document_start + b * length, shape, scores, d_scores);
        close_gradient(d_base + head * dim, width, length, dim, p.dq);
      }
      close_gradient(d_base + k_at, width, length, dim, p.dk);
      close_gradient(d_base + v_at, width, length, dim, p.dv);
    }
  }
}

#define ESPALIER_INSTANTIATE(T)                                                                \
  template void attention_backward<T>(const Mat<T>&, const Mat<const T>&, const Mat<const T>&, \
                                      const Mat<const Acc<T>>&, const Mat<const T>&,           \
                                      const int32_t*, const AttentionShape&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
