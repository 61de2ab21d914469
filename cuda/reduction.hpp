// SPDX-License-Identifier: Apache-2.0
// Ordered sums and conversions of the communication, at the rate of the memory.
#pragma once

#include <cstdint>

#include "cuda/stream.hpp"

namespace espalier::cuda {

constexpr int kMostLeaves = 128;

/// Arrays to add, on the device.
template <class Wire>
struct Leaves {
  const Wire* at[kMostLeaves];
  int count = 0;
};

/// out [size] = the sum over leaves in fp32 (fp64 where Wire is double) in the binary tree of
/// parallel/tree_sum.hpp, rounded once to Out. out may be one of the leaves.
/// Instances  (Wire, Out) in (float, float), (bf16, float), (bf16, bf16), (fp16, fp16),
///            (float, bf16), (float, fp16), (double, double)
/// Errors     InternalError if there are more than kMostLeaves
template <class Wire, class Out>
void tree_sum(const Leaves<Wire>& leaves, Out* out, int64_t size, Stream stream);

/// to[i] = To(from[i]), rounded to nearest even. Instances  between float and bf16, fp16, bf16
template <class From, class To>
void convert(const From* from, To* to, int64_t size, Stream stream);

/// to[i] += from[i]. Instances  float, double
template <class Real>
void add(Real* to, const Real* from, int64_t size, Stream stream);

}  // namespace espalier::cuda
