// SPDX-License-Identifier: Apache-2.0
// Forward attention on the host: tiles of scores by the GEMM library, softmax in vector loops.
#include "layers/attention.hpp"

#include <cmath>
#include <limits>

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
  const Real top = row.template max<Real>(n, std::numeric_limits<Real>::lowest(), [=](int64_t k) {
    return s[k];
  }) * scale;
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

template <class T>
void forward_head(T* heads, int64_t heads_stride, Acc<T>* log_sum, int64_t log_sum_stride,
                  const Panel<Acc<T>>& q, const Panel<Acc<T>>& k, const Panel<Acc<T>>& v,
                  const int32_t* start, const AttentionShape& shape, Acc<T>* scratch) {
  using Real = Acc<T>;
  const int64_t dim = shape.head.head_dim, length = shape.length;
  const Real scale = static_cast<Real>(shape.scale);
  Real* scores = scratch;
  SoftmaxTile<Real> tile;
  tile.output = scratch + kQueryTile * kKeyTile;
  for (int64_t first = 0; first < length; first += kQueryTile) {
    const int64_t last = std::min(first + kQueryTile, length), rows = last - first;
    for (int64_t i = 0; i < rows; ++i) {
      tile.greatest[i] = std::numeric_limits<Real>::lowest();
      tile.denominator[i] = 0;
    }
    std::fill(tile.output, tile.output + rows * dim, Real(0));
    for_each_key_tile(start, first, last, [&](int64_t key_first, int64_t key_last) {
      const int64_t keys = key_last - key_first;
      gemm<Real, Real>(Op::none, Op::transpose, rows, keys, dim, 1, q.row(first), q.stride,
                       k.row(key_first), k.stride, 0, scores, keys);
      for (int64_t i = 0; i < rows; ++i)
        softmax_row(scores + i * keys, keys, visible(start, first + i, key_first, key_last), scale,
                    dim, i, tile);
      gemm<Real, Real>(Op::none, Op::none, rows, dim, keys, 1, scores, keys, v.row(key_first),
                       v.stride, 1, tile.output, dim);
    });
    for (int64_t i = 0; i < rows; ++i) {
      const Real inverse = Real(1) / tile.denominator[i];
      T* target = heads + (first + i) * heads_stride;
      const Real* o = tile.output + i * dim;
      HostRow(i).each(dim, [=](int64_t d) { target[d] = T(o[d] * inverse); });
      log_sum[(first + i) * log_sum_stride] = tile.greatest[i] + std::log(tile.denominator[i]);
    }
  }
}

}  // namespace

template <class T>
void attention_forward(const Mat<T>& heads, const Mat<Acc<T>>& log_sum, const Mat<const T>& qkv,
                       const int32_t* document_start, const AttentionShape& shape,
                       Acc<T>* scratch) {
  static_assert(kOnHost, "the tiled attention runs on the host");
  const HeadShape& h = shape.head;
  const int64_t tokens = shape.sequences * shape.length, width = h.row(), dim = h.head_dim;
  ESPALIER_REQUIRE(static_cast<int64_t>(qkv.extent(0)) == tokens &&
                       static_cast<int64_t>(qkv.extent(1)) == width &&
                       static_cast<int64_t>(heads.extent(1)) == h.heads * dim,
                   "attention of qkv [{}, {}] into heads [{}, {}]", qkv.extent(0), qkv.extent(1),
                   heads.extent(0), heads.extent(1));
  const int64_t group = h.heads / h.kv_heads, length = shape.length, panel = length * dim;
  Acc<T>* tiles = scratch;
  Acc<T>* copies = scratch + 2 * kQueryTile * kKeyTile + kQueryTile * dim;
  for (int64_t b = 0; b < shape.sequences; ++b) {
    const T* base = qkv.data() + b * length * width;
    for (int64_t kv = 0; kv < h.kv_heads; ++kv) {
      const auto k = open_panel(base + (h.heads + kv) * dim, width, length, dim, copies);
      const auto v =
          open_panel(base + (h.heads + h.kv_heads + kv) * dim, width, length, dim, copies + panel);
      for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        const auto q = open_panel(base + head * dim, width, length, dim, copies + 2 * panel);
        forward_head<T>(heads.data() + b * length * h.heads * dim + head * dim, h.heads * dim,
                        log_sum.data() + b * length * h.heads + head, h.heads, q, k, v,
                        document_start + b * length, shape, tiles);
      }
    }
  }
}

#define ESPALIER_INSTANTIATE(T)                                                              \
  template void attention_forward<T>(const Mat<T>&, const Mat<Acc<T>>&, const Mat<const T>&, \
                                     const int32_t*, const AttentionShape&, Acc<T>*);
ESPALIER_FOR_EACH_ELEMENT_TYPE(ESPALIER_INSTANTIATE)

}  // namespace espalier
