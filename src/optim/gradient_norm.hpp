// SPDX-License-Identifier: Apache-2.0
// The norm of the gradient, the same bits for every layout, and the factor that clips it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/exact_sum.hpp"
#include "cuda/optimizer.hpp"
#include "optim/segment.hpp"

namespace espalier {

/// Sums of squares of the gradients that one rank owns.
struct SquareSums {
  ExactSum sum;  // add its words over ranks
  /// The first parameter of the table with a cell whose sum is not finite (an element is infinite
  /// or not a number; in fp64 the sum can also overflow); -1 if there is none.
  int64_t first_not_finite = -1;
  bool is_finite() const { return first_not_finite < 0; }
};

/// A run of whole rows with one row length, where its cells' sums go.
using NormChunk = cuda::NormRun;

/// Sums of squares over what a rank owns, of pieces that count, of gradients as they lie in the
/// buffer (not yet scaled).
///
/// Precision  a cell is added up in double in kSumLanes lanes, so that its bits depend on its own
///            elements alone; cells are added exactly, so that it does not matter who adds which
/// Cost       reads the gradients once. On a device with tuned kernels cells are added there, and
///            some hundred bytes come to the host; with portable ones all cells do
class GradientNorm {
 public:
  /// `gradients`: how the buffer of square_sums is indexed.
  GradientNorm(const std::vector<OptimizerSegment>& segments, const std::vector<OwnedRange>& owned,
               Indexing gradients);

  /// Gives the work to the current stream; the host goes on.
  template <class Real>
  void start(const Real* gradient);
  /// Waits for what start() began. On the same stream, once for each start()
  SquareSums finish();
  /// Both.
  template <class Real>
  SquareSums square_sums(const Real* gradient) {
    start(gradient);
    return finish();
  }

 private:
  SquareSums sum_of_cells(const double* sums) const;
  SquareSums sum_of_words() const;

  struct Cells {
    int64_t count, parameter;
  };
  std::vector<Cells> cells_;  // runs of cells of one parameter, in flat order
  Buffer<NormChunk> chunks_;
  Buffer<double> partial_;  // by cell
  bool is_added_on_device_ = false;
  Buffer<uint64_t> words_;  // of cuda::exact_sum
  PinnedBuffer<uint64_t> arrived_;
};

/// Factor on the gradient so that its norm is at most `clip`: min(1, clip / (norm + 1e-6)), the
/// 1e-6 as in PyTorch's clip_grad_norm_. 1 where clip = 0 (no clipping).
/// Errors  Internal if norm is negative or not finite
double clip_factor(double norm, double clip);

}  // namespace espalier
