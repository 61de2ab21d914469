// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of this rank's micro-batches: by plain accumulation in the fast mode, in a
// fixed binary tree in the reproducible one.
#pragma once

#include <vector>

#include "blueprint/blueprint.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// The tree over n micro-batches: with n = 2^a * m, m odd, runs of m consecutive micro-batches are
/// accumulated one after the other, and the 2^a sums are added pairwise, neighbours first. Since
/// data_parallel is a power of two that divides n, every rank holds a whole subtree, and the rest
/// of the same tree runs across ranks (grid's ordered reduction): the bits do not depend on how
/// many ranks there are.
template <class Real>
class GradientTree {
 public:
  /// `levels`: stored partial sums needed, from blueprint's tree_levels(); 0 accumulates everything
  /// in one run.
  GradientTree(int64_t flat_size, int levels);

  /// Starts a step of `micro_batches` micro-batches: zero gradients, empty tree.
  void begin(int64_t micro_batches);
  /// The buffer that the current micro-batch adds to; it changes between micro-batches.
  Real* current() { return buffers_.front().data(); }
  /// The current micro-batch is complete; not to be called after the last one.
  void next();
  /// After the last micro-batch has completed elements [offset, offset + size) of the buffer: adds
  /// the stored partial sums, so that they hold the sum of the step.
  void close(int64_t offset, int64_t size);

 private:
  void zero();

  std::vector<Buffer<Real>> buffers_;  // the current one, then one a level
  int64_t flat_size_ = 0, run_ = 1, done_ = 0, micro_batches_ = 0;
  int levels_ = 0;
};

}  // namespace espalier
