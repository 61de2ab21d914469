// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores, the tuned form of layers/attention.hpp, for bf16 and fp16.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace espalier::cuda {

/// Heads of every token: element (token t, head h, channel d) at data[t * stride + h * head_dim +
/// d]. Strides in elements.
template <class T>
struct AttentionRows {
  T* data = nullptr;
  int64_t stride = 0;
};

/// One call; the meaning of each part as in layers/attention.hpp, without dropout.
template <class T>
struct AttentionForward {
  AttentionRows<T> out;
  AttentionRows<float> log_sum;  // element (t, h) at data[t * stride + h]
  AttentionRows<const T> q, k, v;
  const int32_t* document_start = nullptr;  // [sequences * length], positions in the sequence
  int64_t sequences = 0, length = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;
};

template <class T>
struct AttentionBackward {
  AttentionRows<T> dq, dk, dv;  // overwritten
  AttentionRows<const T> d_out, out;
  AttentionRows<const float> log_sum;
  AttentionRows<const T> q, k, v;
  const int32_t* document_start = nullptr;
  float* scratch = nullptr;  // [attention_scratch(sequences, length, heads)]
  int64_t sequences = 0, length = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;
};

/// Elements of scratch that a backward call needs: of every sequence, padded to whole tiles, two
/// numbers a query and head and one a query.
constexpr int64_t attention_scratch(int64_t sequences, int64_t length, int64_t heads) {
  return sequences * ((length + 127) / 128 * 128) * (2 * heads + 1);
}

/// Whether the kernels take the shape: head_dim 64, 96, 128 or 256; pointers to 16-bit rows and
/// scratch 16-byte aligned, strides of 16-bit rows multiples of 8; scale above 0. Otherwise the
/// caller takes the portable form.
template <class T>
bool can_run(const AttentionForward<T>& call);
template <class T>
bool can_run(const AttentionBackward<T>& call);

/// Deterministic: no atomics, every output element is summed by one thread in a fixed order, which
/// depends on the positions of query and key alone, not on other heads or sequences of the call.
/// Precision  scores, softmax and sums in fp32; weights rounded to T before they meet the values
/// Errors     InternalError outside can_run()
/// Source     Dao 2023, arXiv:2307.08691
template <class T>
void attention_forward(const AttentionForward<T>& call, Stream stream);
template <class T>
void attention_backward(const AttentionBackward<T>& call, Stream stream);

}  // namespace espalier::cuda
