// SPDX-License-Identifier: Apache-2.0
// AdamW over flat buffers, one fused pass: decay, both moments, the step and the compute copy.
#pragma once

#include <cstdint>
#include <vector>

#include "deck/config.hpp"
#include "optim/segment.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// What one update is done with; everything in double, rounded once when the kernel starts.
struct AdamWStep {
  double learning_rate = 0.0;
  /// Factor on every gradient: 1 / (valid tokens * loss scale) * clip factor.
  double gradient_scale = 1.0;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.0;
  int64_t update = 1;  // number of this update, from 1: the exponent of the bias corrections
};

/// One update of all chunks' elements, with g = gradient_scale * gradient:
///
///   m = beta1 m + (1 - beta1) g                v = beta2 v + (1 - beta2) g^2
///   w = (1 - learning_rate weight_decay) w - learning_rate mhat / (sqrt(vhat) + eps)
///   mhat = m / (1 - beta1^update)              vhat = v / (1 - beta2^update)
///
/// Shapes      all buffers [flat_size]; compute null where T is the master type
/// Precision   element arithmetic in Acc<T>; the result of an element depends on its own values
///             alone, not on where it lies
/// Cost        reads 4 and writes 3 values of Acc<T> an element, and writes one T if compute is
/// there Source      Loshchilov & Hutter 2019, arXiv:1711.05101; eps outside the root, as PyTorch
/// has it
template <class T>
void adamw_update(const Buffer<OptimizerChunk>& chunks, const AdamWStep& step, Acc<T>* master,
                  const Acc<T>* gradient, Acc<T>* first_moment, Acc<T>* second_moment, T* compute);

/// What a checkpoint keeps beside the moments.
struct AdamWState {
  int64_t updates = 0;  // done so far; a skipped step is none
};

/// The optimizer of one rank's flat buffers: owns the moments.
template <class T>
class AdamW {
 public:
  /// Moments start at zero.
  AdamW(int64_t flat_size, const std::vector<OptimizerSegment>& segments,
        const OptimizerConfig& config);

  /// One update. Elements outside the segments are not touched.
  void update(Acc<T>* master, const Acc<T>* gradient, T* compute, double learning_rate,
              double gradient_scale);

  const AdamWState& state() const { return state_; }
  void restore(const AdamWState& state) { state_ = state; }
  Acc<T>* first_moment() const { return first_moment_.data(); }
  Acc<T>* second_moment() const { return second_moment_.data(); }

 private:
  OptimizerConfig config_;
  AdamWState state_;
  Buffer<OptimizerChunk> chunks_;
  Buffer<Acc<T>> first_moment_, second_moment_;
};

}  // namespace espalier
