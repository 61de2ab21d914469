// SPDX-License-Identifier: Apache-2.0
// Parameters and gradients of a rank's blocks among the data-parallel ranks: summed and, with ZeRO,
// shared out.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "engine/block_access.hpp"
#include "engine/gradient_tree.hpp"
#include "parallel/block_reducer.hpp"
#include "parallel/gradient_reducer.hpp"
#include "parallel/parameter_gather.hpp"

namespace espalier {

/// ZeRO 0 and 1 sum a block over micro-batches first and then, while the backward pass goes on,
/// over ranks; 2 and 3 after every micro-batch over ranks, so that no rank holds all gradients. 3
/// gathers parameters before their use, one block ahead.
///
/// Collective  over the shard group (zero_shards neighbours) and the replica group
template <class T>
class DataParallelBlocks : public BlockAccess<T> {
 public:
  using Real = Acc<T>;
  /// All must outlive it.
  DataParallelBlocks(const Blueprint& blueprint, ParameterStore<T>& store, const Comm& shard,
                     const Comm& replica);

  void prefetch(int64_t block) override;
  BlockView<const T> values(int64_t block) override;
  void release(int64_t block) override;
  GradientView<Real> gradients(int64_t block) override;
  bool is_new(int64_t block) const override;
  void gradients_done(int64_t block) override;
  void progress() override;

  /// Empty sums for a step of blueprint.micro_batches micro-batches.
  void begin_step();
  /// Returns when this rank's part of the sums over all data-parallel ranks is there.
  void finish_step();
  /// The sums: everything at ZeRO 0, own ranges at 1, both flat; the own ranges, compact, at 2, 3.
  Real* sums() const { return tree_.total(); }
  Indexing sums_indexing() const { return zero_ < 2 ? Indexing::flat : Indexing::compact; }
  /// After own parameters have changed: brings them to the ranks that compute with them.
  void parameters_changed();

  /// Called by progress() as well.
  void also_progress(std::function<void()> f) { also_ = std::move(f); }

 private:
  struct Gathered {
    Buffer<T> data;
    BlockKind kind = BlockKind::layer;
    int64_t block = -1;
    int uses = 0;
    bool is_arriving = false;
    Request request;
  };
  Gathered* find(int64_t block);
  Gathered* start(int64_t block);

  const Blueprint& blueprint_;
  ParameterStore<T>& store_;
  const int64_t zero_;
  GradientTree<Real> tree_;
  ZeroedRanges scratch_zeroed_;                        // by block, of ZeRO 2 and 3
  std::unique_ptr<GradientReducer<Real>> reducer_;     // ZeRO 0, 1
  std::unique_ptr<BlockReducer<Real>> block_reducer_;  // 2, 3
  std::vector<Real*> held_;                            // by block: scratch that is being filled
  std::vector<size_t> ranges_left_;                    // by block: of the micro-batch under way
  std::unique_ptr<ParameterGather<T>> gather_;         // 1, 2, 3
  std::vector<std::unique_ptr<Gathered>> gathered_;    // 3
  std::function<void()> also_;
};

/// Where the output holds a copy of a tied token table: makes the gradients of both the sum of the
/// two, the embedding's first. `sums` as DataParallelBlocks has them; `received` is room that the
/// caller keeps from step to step.
/// Collective  over the pipeline axis; `pp` null: one rank
template <class Real>
void sum_tied_gradients(const Blueprint& blueprint, Real* sums, Indexing indexing, const Comm* pp,
                        Buffer<Real>& received);

}  // namespace espalier
