// SPDX-License-Identifier: Apache-2.0
// AdamW over flat buffers, one fused pass: decay, both moments, the step and the compute copy.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/optimizer.hpp"
#include "deck/config.hpp"
#include "optim/segment.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// How each buffer of an update is indexed; the moments are always compact.
struct AdamWIndexing {
  Indexing master = Indexing::flat, gradient = Indexing::flat, compute = Indexing::flat;
};

/// What a checkpoint keeps beside the moments.
struct AdamWState {
  int64_t updates = 0;  // done so far; a skipped step is none
};

/// A run of elements with one rule, also in the whole model.
struct AdamWChunk {
  int64_t flat, compact, size;
  int64_t number;  // of the first element among all of the model; runs on only where it is used
  bool decays;
  int64_t at(Indexing indexing) const { return indexing == Indexing::flat ? flat : compact; }
};

/// Chunks as the kernels of cuda/ see them.
struct AdamWRuns {
  Buffer<cuda::AdamWRun> list;
  int64_t longest = 0;
};

/// What an update is added to: a master of its own beside the copy that is computed with, or that
/// copy itself.
enum class MasterWeights { separate, rounded };

/// The optimizer of what one rank owns: holds the moments. One update, with
/// g = gradient_scale * gradient:
///
///   m = beta1 m + (1 - beta1) g                v = beta2 v + (1 - beta2) g^2
///   w = (1 - learning_rate weight_decay) w - learning_rate mhat / (sqrt(vhat) + eps)
///   mhat = m / (1 - beta1^update)              vhat = v / (1 - beta2^update)
///
/// Shapes     flat buffers [flat_size], compact ones [compact size]
/// Precision  element arithmetic in Acc<T>; the result of an element depends on its own values
///            alone (and on its number, where it is rounded), neither on where it lies nor on who
///            owns it
/// Cost       reads 4 and writes 3 values of Acc<T> an element, and one T of the compute copy
/// Source     Loshchilov & Hutter 2019, arXiv:1711.05101; eps outside the root, as PyTorch has it
template <class T>
class AdamW {
 public:
  /// Moments start at zero.
  AdamW(const std::vector<OptimizerSegment>& segments, const std::vector<OwnedRange>& owned,
        const AdamWIndexing& indexing, const OptimizerConfig& config,
        MasterWeights master = MasterWeights::separate);

  /// One update. `compute` is null where T is the master type. What the rank does not own, and what
  /// lies outside the segments, is not touched.
  void update(Acc<T>* master, const Acc<T>* gradient, T* compute, double learning_rate,
              double gradient_scale);
  /// One update of MasterWeights::rounded, T = bf16: the weights alone, read as they are, updated
  /// in fp32 and rounded stochastically (stochastic_rounding.hpp). `seed`: of the run. Cost reads 3
  /// values of Acc<T> an element and one of T, writes 2 and 1 Errors  Internal for another T, or
  /// with a separate master
  void update_rounded(T* weights, const Acc<T>* gradient, double learning_rate,
                      double gradient_scale, uint64_t seed);

  const AdamWState& state() const { return state_; }
  void restore(const AdamWState& state) { state_ = state; }
  /// [moment_size()], compact.
  Acc<T>* first_moment() const { return first_moment_.data(); }
  Acc<T>* second_moment() const { return second_moment_.data(); }
  int64_t moment_size() const { return first_moment_.size(); }

 private:
  OptimizerConfig config_;
  AdamWIndexing indexing_;
  MasterWeights master_;
  AdamWState state_;
  Buffer<AdamWChunk> chunks_;
  AdamWRuns runs_;  // the same for the tuned kernels
  Buffer<Acc<T>> first_moment_, second_moment_;
};

}  // namespace espalier
