// SPDX-License-Identifier: Apache-2.0
// Forward attention on the host: tiles of scores by the GEMM library, softmax in vector loops.
#include "layers/attention.hpp"

#include <cmath>

#include "core/error.hpp"
#include "layers/attention_tiles.hpp"
#include "layers/instantiate.hpp"
#include "tensor/math.hpp"
#include "tensor/rows.hpp"

namespace espalier {
namespace {

using namespace attention_detail;

/// Running softmax of a tile of queries: greatest score, denominator, unnormalised output.
template <class Real>
struct SoftmaxTile {
  Real greatest[kQueryTile];
  Real denominator[kQueryTile];
  Real* output;  // [kQueryTile, head_dim]
};

// Turns the scores of one row into weights in place, and rescales what was summed before.
template <class Real>
void softmax_row(Real* score, int64_t keys, KeyRange range, Real scale, int64_t dim, int64_t i,
                 SoftmaxTile<Real>& tile) {
  const HostRow row(i);
  for (int64_t k = 0; k < range.low; ++k) score[k] = 0;
  for (int64_t k = range.high; k < keys; ++k) score[k] = 0;
  if (range.low >= range.high) return;
  Real* s = score + range.low;
  const int64_t n = range.high - range.low;
  const Real before = tile.greatest[i];
  const Real top =
      row.template max<Real>(n, lowest_number<Real>(), [=](int64_t k) { return s[k]; }) * scale;
  const Real greatest = std::max(before, top);
  row.each(n, [=](int64_t k) { s[k] = exp_value(s[k] * scale - greatest); });
  const Real sum = row.template sum<Real>(n, [=](int64_t k) { return s[k]; });
  if (greatest > before && tile.denominator[i] > 0) {
    const Real shrink = exp_value(before - greatest);
    tile.denominator[i] *= shrink;
    Real* o = tile.output + i * dim;
    row.each(dim, [=](int64_t d) { o[d] *= shrink; });
  }
  tile.greatest[i] = greatest;
  tile.denominator[i] += sum;
}

/// One query head of one sequence, with the panels of its key head.
template <class T>
struct Head {
  Panel<Acc<T>> q, k, v;
  T* out;
  int64_t out_stride;
  Acc<T>* log_sum;
  int64_t log_sum_stride;
  const int32_t* start;  // document_start of the sequence
};

template <class T>
void forward_head(const Head<T>& head, const AttentionShape& shape,
                  const WeightDropout<Acc<T>>& dropout, Acc<T>* scratch) {
  using Real = Acc<T>;
  const int64_t dim = shape.head.head_dim, length = shape.length;
  const Real scale = static_cast<Real>(shape.scale);
  Real* scores = scratch;
  Real factors[kKeyTile];
  SoftmaxTile<Real> tile;
  tile.output = scratch + kQueryTile * kKeyTile;
  for (int64_t first = 0; first < length; first += kQueryTile) {
    const int64_t last = std::min(first + kQueryTile, length), rows = last - first;
    for (int64_t i = 0; i < rows; ++i) {
      tile.greatest[i] = lowest_number<Real>();
      tile.denominator[i] = 0;
    }
    std::fill(tile.output, tile.output + rows * dim, Real(0));
    for_each_key_tile(head.start, first, last, [&](int64_t key_first, int64_t key_last) {
      const int64_t keys = key_last - key_first;
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, head.q.row(first),
                       head.q.stride, head.k.row(key_first), head.k.stride, 0, scores, keys);
      for (int64_t i = 0; i < rows; ++i) {
        Real* row = scores + i * keys;
        const KeyRange range = visible(head.start, first + i, key_first, key_last);
        softmax_row(row, keys, range, scale, dim, i, tile);
        if (!dropout.active()) continue;
        dropout.fill(factors, first + i, key_first, range);
        multiply(row, factors, range);
      }
      gemm<Real, Real>(Op::none, Op::none, rows, dim, keys, 1, scores, keys, head.v.row(key_first),
                       head.v.stride, 1, tile.output, dim);
    });
    for (int64_t i = 0; i < rows; ++i) {
      const Real inverse = Real(1) / tile.denominator[i];
      T* target = head.out + (first + i) * head.out_stride;
      const Real* o = tile.output + i * dim;
      HostRow(i).each(dim, [=](int64_t d) { target[d] = T(o[d] * inverse); });
      head.log_sum[(first + i) * head.log_sum_stride] =
          tile.greatest[i] + std::log(tile.denominator[i]);
    }
  }
}

}  // namespace

template <class T>
void attention_forward(const HeadRows<T>& heads, const HeadRows<Acc<T>>& log_sum,
                       const QueryKeyValue<const T>& in, const int32_t* document_start,
                       const AttentionShape& shape, const AttentionDropout& dropout,
                       Acc<T>* scratch) {
  static_assert(kOnHost, "the tiled attention runs on the host");
  require_shapes(in, heads, log_sum, shape);
  const HeadShape& h = shape.head;
  const int64_t group = h.heads / h.kv_heads, length = shape.length, dim = h.head_dim;
  const int64_t panel = length * dim;
  WeightDropout<Acc<T>> mask(dropout, shape);
  Acc<T>* copies = scratch + 2 * kQueryTile * kKeyTile + kQueryTile * dim;
  for (int64_t b = 0; b < shape.sequences; ++b) {
    const int64_t t = b * length;
    for (int64_t kv = 0; kv < h.kv_heads; ++kv) {
      Head<T> head;
      head.start = document_start + t;
      head.k = open_panel(at(in.k, t, kv * dim), in.k.stride, length, dim, copies);
      head.v = open_panel(at(in.v, t, kv * dim), in.v.stride, length, dim, copies + panel);
      head.out_stride = heads.stride;
      head.log_sum_stride = log_sum.stride;
      for (int64_t i = kv * group; i < (kv + 1) * group; ++i) {
        head.q = open_panel(at(in.q, t, i * dim), in.q.stride, length, dim, copies + 2 * panel);
        head.out = at(heads, t, i * dim);
        head.log_sum = at(log_sum, t, i);
        mask.select(b, i);
        forward_head<T>(head, shape, mask, scratch);
      }
    }
  }
}

#define ESPALIER_INSTANTIATE(T)                                                     \
  template void attention_forward<T>(const HeadRows<T>&, const HeadRows<Acc<T>>&,   \
                                     const QueryKeyValue<const T>&, const int32_t*, \
                                     const AttentionShape&, const AttentionDropout&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
