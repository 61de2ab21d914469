// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of this rank's micro-batches block by block: by plain accumulation in the fast
// mode, in a fixed binary tree in the reproducible one.
#pragma once

#include <vector>

#include "blueprint/blueprint.hpp"
#include "blueprint/partition.hpp"
#include "tensor/views.hpp"
#include "tensor/zeroed_ranges.hpp"

namespace espalier {

/// The tree over n micro-batches: with n = 2^a * m, m odd, runs of m consecutive micro-batches are
/// accumulated one after the other, and the 2^a sums are added pairwise, neighbours first. A rank
/// that takes a run of neighbours holds a whole subtree, and the rest of the same tree runs across
/// ranks: the bits do not depend on how many ranks there are. Where ranks are summed after every
/// micro-batch instead (ZeRO 2 and 3), neighbours stand on different ranks and this is the top of
/// the tree.
///
/// Blocks go through their micro-batches independently, as chunks of a pipeline do.
template <class Real>
class GradientTree {
 public:
  using Spans = std::vector<FlatRange>;
  /// Buffers of `size` elements, in which block b has the spans blocks[b]. `levels`: stored partial
  /// sums needed, from blueprint's tree_levels(); 0 accumulates everything in one run. `zeroed`, by
  /// block: what of its spans is zero when a run begins. The rest still holds what was there before
  /// and is for whoever comes first to overwrite: see is_new().
  GradientTree(int64_t size, int levels, std::vector<Spans> blocks,
               const std::vector<Spans>& zeroed);

  /// Starts a step of `micro_batches` micro-batches: empty trees, a new run in every block.
  void begin(int64_t micro_batches);
  /// The buffer [size] that the block's current micro-batch adds to; it changes between them.
  Real* current(int64_t block) const { return buffers_[order_[block].front()].data(); }
  /// Whether a run of the block has begun to which nothing was added. True until set_used(), or
  /// until the run's first micro-batch is complete.
  bool is_new(int64_t block) const { return is_new_[static_cast<size_t>(block)]; }
  void set_used(int64_t block) { is_new_[static_cast<size_t>(block)] = false; }
  /// The block's current micro-batch is complete. After the last one current() holds the sum of
  /// the step, in total().
  void next(int64_t block);
  /// Micro-batches of the block that are complete.
  int64_t done(int64_t block) const { return done_[static_cast<size_t>(block)]; }
  /// Where the sums of the step will be once every block is done.
  Real* total() const { return buffers_[total_].data(); }

 private:
  void add_left(int64_t block, size_t right, size_t left);

  std::vector<Buffer<Real>> buffers_;
  std::vector<Spans> blocks_;
  ZeroedRanges zeroed_;
  std::vector<std::vector<size_t>> order_;  // by block: the current buffer, then one a level
  std::vector<int64_t> done_;
  std::vector<bool> is_new_;
  int64_t run_ = 1, micro_batches_ = 0;
  size_t total_ = 0;
  int levels_ = 0;
};

}  // namespace espalier
