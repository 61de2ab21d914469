// SPDX-License-Identifier: Apache-2.0
// Rotary embedding, activations fused with their bias, biases and embeddings: the tuned forms of
// layers/rope.hpp, activation.hpp, linear.hpp, embedding.hpp. T = float, bf16, fp16.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"
#include "deck/config.hpp"

namespace espalier::cuda {

/// Rotates in place, as rope() of layers/rope.hpp; table [positions, head_dim], cosines first.
template <class T>
struct Rope {
  T* data = nullptr;
  int64_t stride = 0;  // elements between tokens
  int64_t heads = 0, head_dim = 0, tokens = 0;
  const float* table = nullptr;
  const int32_t* positions = nullptr;  // [tokens]
  bool interleaved = false;            // RopeStyle::interleaved
  bool inverse = false;
};
template <class T>
void rope(const Rope<T>& call, Stream stream);

/// up += bias (null: none; the sum is kept, rounded to T), y = activation(up).
/// Shapes  y [rows, columns]; up [rows, columns], twice as wide for swiglu: gates, then values
template <class T>
void activation_forward(Activation kind, T* y, T* up, const T* bias, int64_t rows, int64_t columns,
                        Stream stream);
/// d_up, overwritten, from dy; up as activation_forward left it.
template <class T>
void activation_backward(Activation kind, T* d_up, const T* dy, const T* up, int64_t rows,
                         int64_t columns, Stream stream);
/// Both at once: d_up, and db [columns] += the sums over rows of d_up, each with the bits that
/// activation_backward and bias_gradient give. Not for swiglu. scratch: bias_gradient_scratch
/// elements.
/// Errors  InternalError for swiglu
template <class T>
void activation_and_bias_backward(Activation kind, T* d_up, float* db, const T* dy, const T* up,
                                  int64_t rows, int64_t columns, float* scratch, Stream stream);

/// x [rows, columns] += bias [columns]
template <class T>
void add_bias(T* x, const T* bias, int64_t rows, int64_t columns, Stream stream);

/// db [columns] += sum over rows of dy [rows, columns], deterministic. scratch:
/// bias_gradient_scratch elements.
template <class T>
void bias_gradient(float* db, const T* dy, int64_t rows, int64_t columns, float* scratch,
                   Stream stream);
/// At most 64 * columns.
int64_t bias_gradient_scratch(int64_t rows, int64_t columns);

/// x[t] = table[tokens[t] - first] + position_table[positions[t]]; rows outside [first, first +
/// entries) become -0. position_table may be null.
template <class T>
struct EmbeddingForward {
  T* x = nullptr;
  const T *table = nullptr, *position_table = nullptr;
  const int32_t *tokens = nullptr, *positions = nullptr;
  int64_t rows = 0, columns = 0, entries = 0, first = 0;
};
template <class T>
void embedding_forward(const EmbeddingForward<T>& call, Stream stream);

/// d_table[index[t] - first] += dx[t] in fp32, the tokens of an entry in their order: no atomics.
template <class T>
void embedding_backward(float* d_table, const T* dx, const int32_t* index, int64_t tokens,
                        int64_t columns, int64_t entries, int64_t first, Stream stream);

}  // namespace espalier::cuda
