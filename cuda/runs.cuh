// SPDX-License-Identifier: Apache-2.0
// Flat arrays in words of 16 bytes: where the words lie, and elements read and written as fp32.
#pragma once

#include "cuda/primitives.cuh"

namespace espalier::cuda {

/// Rounded to nearest even, by the same instruction as a packed pair.
template <class T>
__device__ __forceinline__ T rounded(Acc<T> x) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    return x;
  } else {
    T value;
    value.bits = static_cast<uint16_t>(pack2<T>(x, 0.0f) & 0xffffu);
    return value;
  }
}

/// x [kCount] = from [kCount], widened. `from` is aligned to the kCount elements or 16 bytes,
/// whichever is less.
template <class T, int kCount>
__device__ __forceinline__ void load_values(const T* from, Acc<T> (&x)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static_assert(kBytes % 8 == 0 && (kBytes < 16 || kBytes % 16 == 0), "words of 8 or 16 bytes");
  if constexpr (sizeof(T) == 2) {
    uint32_t words[kBytes / 4];
    if constexpr (kBytes == 8) {
      const uint2 w = *reinterpret_cast<const uint2*>(from);
      words[0] = w.x;
      words[1] = w.y;
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        const uint4 w = reinterpret_cast<const uint4*>(from)[i];
        words[4 * i] = w.x;
        words[4 * i + 1] = w.y;
        words[4 * i + 2] = w.z;
        words[4 * i + 3] = w.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) {
      const float2 pair = unpack2<T>(words[i]);
      x[2 * i] = pair.x;
      x[2 * i + 1] = pair.y;
    }
  } else {
    static_assert(kBytes % 16 == 0, "wide elements in words of 16 bytes");
    constexpr int kWord = Vector<T>::kSize;
#pragma unroll
    for (int i = 0; i < kCount / kWord; ++i) {
      const Vector<T> v = load_vector(from + i * kWord);
#pragma unroll
      for (int j = 0; j < kWord; ++j) x[i * kWord + j] = v.at[j];
    }
  }
}

/// to [kCount] = x [kCount], rounded; aligned as in load_values.
template <class T, int kCount>
__device__ __forceinline__ void store_values(T* to, const Acc<T> (&x)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static_assert(kBytes % 8 == 0 && (kBytes < 16 || kBytes % 16 == 0), "words of 8 or 16 bytes");
  if constexpr (sizeof(T) == 2) {
    uint32_t words[kBytes / 4];
#pragma unroll
    for (int i = 0; i < kBytes / 4; ++i) words[i] = pack2<T>(x[2 * i], x[2 * i + 1]);
    if constexpr (kBytes == 8) {
      *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        reinterpret_cast<uint4*>(to)[i] =
            make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
  } else {
    static_assert(kBytes % 16 == 0, "wide elements in words of 16 bytes");
    constexpr int kWord = Vector<T>::kSize;
#pragma unroll
    for (int i = 0; i < kCount / kWord; ++i) {
      Vector<T> v;
#pragma unroll
      for (int j = 0; j < kWord; ++j) v.at[j] = x[i * kWord + j];
      store_vector(to + i * kWord, v);
    }
  }
}

/// A flat array as `head` single elements, then `groups` groups of kCount, then single elements.
/// Work item i is a group for i < groups, else a single element; a warp meets both kinds once.
struct Cut {
  int64_t head = 0, groups = 0, size = 0;

  ESPALIER_FUNCTION int64_t items(int count) const { return groups + size - groups * count; }
  ESPALIER_FUNCTION int64_t single(int64_t item, int count) const {
    const int64_t i = item - groups;
    return i < head ? i : i + groups * count;
  }
};

/// Elements before the first whose address is a multiple of `bytes`.
template <class T>
ESPALIER_FUNCTION int64_t elements_to_alignment(const T* data, int64_t bytes) {
  const int64_t over = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) & (bytes - 1);
  return over == 0 ? 0 : (bytes - over) / static_cast<int64_t>(sizeof(T));
}

/// Whether data + first can be read in groups of kCount by load_values.
template <int kCount, class T>
ESPALIER_FUNCTION bool takes_groups(const T* data, int64_t first) {
  constexpr int64_t kBytes = kCount * static_cast<int64_t>(sizeof(T));
  constexpr int64_t kWord = kBytes < 16 ? kBytes : 16;
  return (reinterpret_cast<uintptr_t>(data + first) & (kWord - 1)) == 0;
}

/// The cut of `size` elements that are read from all of `data...` in groups of kCount; without
/// groups where the arrays are not aligned alike.
template <int kCount, class T, class... Others>
ESPALIER_FUNCTION Cut cut_in_groups(int64_t size, const T* data, const Others*... others) {
  constexpr int64_t kBytes = kCount * static_cast<int64_t>(sizeof(T));
  const int64_t head = elements_to_alignment(data, kBytes < 16 ? kBytes : 16);
  const bool alike = (takes_groups<kCount>(others, head) && ...);
  Cut cut;
  cut.size = size;
  if (head < size && takes_groups<kCount>(data, head) && alike) {
    cut.head = head;
    cut.groups = (size - head) / kCount;
  }
  return cut;
}

}  // namespace espalier::cuda
