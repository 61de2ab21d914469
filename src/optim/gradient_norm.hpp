// SPDX-License-Identifier: Apache-2.0
// The norm of the gradient, by tensor and in all, and the factor that clips it.
#pragma once

#include <cstdint>
#include <vector>

#include "optim/segment.hpp"

namespace espalier {

/// Sums of squares of one rank's gradients.
struct SquareSums {
  std::vector<double> by_segment;
  double total = 0.0;  // of by_segment, in order
  /// The first segment whose sum is not finite (an element is infinite or not a number; in fp64 the
  /// sum can also overflow); -1 if there is none.
  int64_t first_not_finite = -1;
  bool is_finite() const { return first_not_finite < 0; }
};

/// Sums of squares by segment, of gradients as they lie in the buffer (not yet scaled).
///
/// Precision  sums in double, in kSumLanes lanes within chunks of kChunkElements, then chunk after
///            chunk: the order depends on the segment's size alone, so the bits depend neither on
///            where it lies nor on the others
/// Cost       reads the gradients once
class GradientNorm {
 public:
  GradientNorm(int64_t flat_size, const std::vector<OptimizerSegment>& segments);

  template <class Real>
  SquareSums square_sums(const Real* gradient) const;

 private:
  std::vector<OptimizerChunk> chunks_;
  Buffer<OptimizerChunk> device_chunks_;
  Buffer<double> partial_;
  size_t segments_ = 0;
};

/// Factor on the gradient so that its norm is at most `clip`: min(1, clip / (norm + 1e-6)), the
/// 1e-6 as in PyTorch's clip_grad_norm_. 1 where clip = 0 (no clipping).
/// Errors  Internal if norm is negative or not finite
double clip_factor(double norm, double clip);

}  // namespace espalier
