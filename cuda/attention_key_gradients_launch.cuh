// SPDX-License-Identifier: Apache-2.0
// Backward attention: which kernel forms the gradients of keys and values.
#pragma once

#include "cuda/attention_key_gradients.cuh"
#include "cuda/attention_narrow_key_gradients.cuh"

namespace espalier::cuda::attention {

template <class Shape, class T>
void launch_key_gradients(void (*kernel)(AttentionBackward<T>, BackwardScratch, BlockOrder),
                          const AttentionBackward<T>& call, const BackwardScratch& scratch,
                          Stream stream) {
  const BlockOrder order =
      order_blocks(blocks_for(call.length, Shape::kKeys), call.sequences, call.kv_heads, 1,
                   4 * call.length * call.head_dim * (call.heads / call.kv_heads));
  launch("attention backward: keys and values", kernel, grid_of(order), dim3(Shape::kThreads),
         Shape::kSharedBytes, stream, call, scratch, order);
}

template <class T>
void run_key_gradients(const AttentionBackward<T>& call, const BackwardScratch& scratch,
                       Stream stream) {
  switch (call.head_dim) {
    case 64:
      return launch_key_gradients<NarrowKeyGradientShape<64>>(narrow_key_gradients_kernel<T, 64>,
                                                              call, scratch, stream);
    case 96:
      return launch_key_gradients<KeyGradientShape<96>>(key_gradients_kernel<T, 96>, call, scratch,
                                                        stream);
    case 128:
      return launch_key_gradients<KeyGradientShape<128>>(key_gradients_kernel<T, 128>, call,
                                                         scratch, stream);
    default:
      return launch_key_gradients<KeyGradientShape<256>>(key_gradients_kernel<T, 256>, call,
                                                         scratch, stream);
  }
}

}  // namespace espalier::cuda::attention
