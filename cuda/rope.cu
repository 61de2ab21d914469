// SPDX-License-Identifier: Apache-2.0
// Rotary embedding in place.
#include "cuda/pieces.cuh"
#include "cuda/pointwise.hpp"

namespace espalier::cuda {
namespace {

/// W pairs in two pieces. kInterleaved: the pieces are neighbours, and so are the two of a pair;
/// else the second piece stands head_dim / 2 later and holds the partners of the first.
template <class T, int W, bool kInterleaved>
struct Rotate {
  static constexpr int kAngles = W == 1 ? 1 : 4;  // floats that are read as one word
  T* data;
  int64_t stride;
  const float* table;
  const int32_t* positions;
  uint32_t head_dim, pieces;  // pieces: pairs of pieces in a head
  float sign;
  struct Held {
    T* x;
    Piece<T, W> first, second;
    float cosine[W], sine[W];
  };
  __device__ int64_t partner() const {
    return kInterleaved ? int64_t{W} : static_cast<int64_t>(head_dim / 2);
  }
  __device__ Held load(int64_t row, int64_t piece) const {
    const uint32_t index = static_cast<uint32_t>(piece), head = index / pieces;
    const uint32_t within = index - head * pieces;
    Held h;
    h.x = data + row * stride + int64_t{head} * head_dim + within * (kInterleaved ? 2 * W : W);
    h.first = load_piece<W>(static_cast<const T*>(h.x));
    h.second = load_piece<W>(static_cast<const T*>(h.x + partner()));
    const float* angle = table + int64_t{positions[row]} * head_dim + within * W;
#pragma unroll
    for (int i = 0; i < W; i += kAngles) {
      const auto c = load_piece<kAngles>(angle + i);
      const auto s = load_piece<kAngles>(angle + head_dim / 2 + i);
#pragma unroll
      for (int j = 0; j < kAngles; ++j) {
        h.cosine[i + j] = c.at[j];
        h.sine[i + j] = s.at[j];
      }
    }
    return h;
  }
  __device__ void finish(const Held& h, int64_t, int64_t) const {
    float first[W], second[W];
    to_floats(h.first, first);
    to_floats(h.second, second);
    if constexpr (kInterleaved && W > 1) {
#pragma unroll
      for (int i = 0; i < W; i += 2) {
        turn(first[i], first[i + 1], h.cosine[i / 2], h.sine[i / 2]);
        turn(second[i], second[i + 1], h.cosine[(W + i) / 2], h.sine[(W + i) / 2]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < W; ++i) turn(first[i], second[i], h.cosine[i], h.sine[i]);
    }
    store_piece<W>(h.x, to_piece<T>(first));
    store_piece<W>(h.x + partner(), to_piece<T>(second));
  }
  // Fused by hand, so that every instance rounds alike.
  __device__ void turn(float& a, float& b, float cosine, float sine) const {
    const float s = sign * sine, old = a;
    a = fmaf(-b, s, old * cosine);
    b = fmaf(old, s, b * cosine);
  }
};

template <class T, int W, bool kInterleaved>
void rotate(const Rope<T>& c, Stream stream) {
  const int64_t pieces = c.head_dim / 2 / W;
  const Rotate<T, W, kInterleaved> body{c.data,
                                        c.stride,
                                        c.table,
                                        c.positions,
                                        static_cast<uint32_t>(c.head_dim),
                                        static_cast<uint32_t>(pieces),
                                        c.inverse ? -1.0f : 1.0f};
  pointwise<2>("rope", body, c.tokens, c.heads * pieces, stream);
}

}  // namespace

template <class T>
void rope(const Rope<T>& c, Stream stream) {
  if (c.tokens == 0 || c.heads == 0 || c.head_dim < 2) return;
  constexpr int W = kPieceSize<T>;
  const bool whole =
      c.head_dim % (2 * W) == 0 && c.stride % W == 0 && are_aligned(16, c.data, c.table);
  if (c.interleaved)
    whole ? rotate<T, W, true>(c, stream) : rotate<T, 1, true>(c, stream);
  else
    whole ? rotate<T, W, false>(c, stream) : rotate<T, 1, false>(c, stream);
}

template void rope<float>(const Rope<float>&, Stream);
template void rope<bf16>(const Rope<bf16>&, Stream);
template void rope<fp16>(const Rope<fp16>&, Stream);

}  // namespace espalier::cuda
