// SPDX-License-Identifier: Apache-2.0
// What the portable forms of attention on a device share. Private to this room.
#pragma once

#include "core/error.hpp"
#include "layers/attention.hpp"

namespace espalier::attention_detail {

/// Scores that a team holds at once.
constexpr int64_t kDeviceTile = 256;

/// One call as its kernels see it: plain values.
template <class T>
struct DeviceCall {
  using Real = Acc<T>;
  HeadRows<const T> q, k, v;
  const int32_t* document_start = nullptr;
  int64_t sequences = 0, length = 0, heads = 0, kv_heads = 0, dim = 0;
  Real scale = 1;
  DropoutFactors<Real> factors;
  const int64_t* first_token = nullptr;
  int64_t first_head = 0, all_heads = 0;

  DeviceCall(const QueryKeyValue<const T>& in, const int32_t* start, const AttentionShape& shape,
             const AttentionDropout& dropout)
      : q(in.q),
        k(in.k),
        v(in.v),
        document_start(start),
        sequences(shape.sequences),
        length(shape.length),
        heads(shape.head.heads),
        kv_heads(shape.head.kv_heads),
        dim(shape.head.head_dim),
        scale(static_cast<Real>(shape.scale)),
        factors(dropout.mask),
        first_token(dropout.first_token),
        first_head(dropout.first_head),
        all_heads(dropout.heads) {
    ESPALIER_REQUIRE(kv_heads > 0 && heads % kv_heads == 0, "attention of {} heads on {}", heads,
                     kv_heads);
    ESPALIER_REQUIRE(
        !dropout.mask.active() || (first_token != nullptr && first_head + heads <= all_heads),
        "attention dropout of {} heads from {} of {} needs global indices", heads, first_head,
        all_heads);
  }

  KOKKOS_INLINE_FUNCTION const T* query(int64_t token, int64_t head) const {
    return q.data + token * q.stride + head * dim;
  }
  KOKKOS_INLINE_FUNCTION const T* key(int64_t token, int64_t kv) const {
    return k.data + token * k.stride + kv * dim;
  }
  KOKKOS_INLINE_FUNCTION const T* value(int64_t token, int64_t kv) const {
    return v.data + token * v.stride + kv * dim;
  }
  KOKKOS_INLINE_FUNCTION Real dot(const T* a, const T* b) const {
    Real sum = 0;
    for (int64_t d = 0; d < dim; ++d) sum += Real(a[d]) * Real(b[d]);
    return sum;
  }
  /// Dropout of the weight of query t on key s of a sequence.
  KOKKOS_INLINE_FUNCTION Real factor(int64_t sequence, int64_t head, int64_t t, int64_t s) const {
    if (!factors.active()) return Real(1);
    const auto row =
        static_cast<uint64_t>(first_token[sequence] + t) * static_cast<uint64_t>(all_heads) +
        static_cast<uint64_t>(first_head + head);
    return factors.at(row * static_cast<uint64_t>(length) + static_cast<uint64_t>(s));
  }
};

}  // namespace espalier::attention_detail
