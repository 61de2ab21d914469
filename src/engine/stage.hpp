// SPDX-License-Identifier: Apache-2.0
// The operators of one stage, forward and backward, on planned memory.
#pragma once

#include <functional>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "engine/parameter_store.hpp"
#include "layers/attention.hpp"
#include "layers/linear.hpp"
#include "layers/norm.hpp"
#include "tensor/arena.hpp"

namespace espalier {

/// The tokens of one micro-batch, in host memory; see corpus/batch_source.hpp for the meaning.
struct TokenBatch {
  const int32_t* inputs = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* document_start = nullptr;
  int64_t sequences = 0, length = 0;
};

/// Called during a backward pass, so that reductions can start and progress.
struct BackwardHooks {
  std::function<void(size_t block)> block_done;  // gradients of table.blocks[block] are complete
  std::function<void()> progress;                // between operators
};

template <class T>
class Stage {
 public:
  using Real = Acc<T>;
  Stage(const Blueprint& blueprint, const ParameterStore<T>& parameters);

  /// Sum of the losses over the valid tokens of the micro-batch; no gradients.
  double evaluate(const TokenBatch& tokens);

  /// Forward and backward of one micro-batch. Adds the gradients of gradient_scale times the sum
  /// of the losses to the flat buffer `gradients`. Returns the sum of the losses.
  double train(const TokenBatch& tokens, double gradient_scale, Real* gradients,
               const BackwardHooks& hooks = {});

 private:
  struct BlockTensors;
  struct Inputs {
    int32_t *tokens, *targets, *positions, *document_start;
  };

  Inputs load(const TokenBatch& tokens);
  void forward_trunk(const Inputs& in);
  void forward_block(int64_t layer, const Inputs& in);
  void enter_block(int64_t layer, const Inputs& in);
  void forward_attention(int64_t layer, const Inputs& in);
  void forward_mlp(int64_t layer, Write write);
  void apply_qk_norm_forward(int64_t layer);
  void apply_qk_norm_backward(int64_t layer, Real* gradients);
  void forward_final_norm();
  enum class Head { evaluate, train };
  double head(const Inputs& in, Head mode, double gradient_scale, Real* gradients);
  void backward_final_norm(Real* gradients);
  void backward_block(int64_t layer, const Inputs& in, Real* gradients);
  void backward_mlp(int64_t layer, Mat<T> d_normed, Real* gradients);
  void backward_attention(int64_t layer, const Inputs& in, Mat<T> d_normed, Write write,
                          Real* gradients);
  void backward_embedding(const Inputs& in, Real* gradients);

  NormParameters<T> norm_parameters(const NormSlots& s) const {
    return {parameters_.vector(s.weight), parameters_.vector(s.bias)};
  }
  void norm_backward_into_stream(const NormSlots& slots, const Mat<T>& d_normed, const Mat<T>& x,
                                 const Mat<Real>& statistics, Real* gradients);
  void linear_gradients(const LinearSlots& slots, const Mat<T>& dy, const Mat<T>& x,
                        Real* gradients);
  /// Bias that the residual addition after `layer`'s last linear layer has yet to add.
  Vec<const T> pending_bias(int64_t layer) const;
  RowSet<T> query_rows(const Mat<T>& qkv) const;
  RowSet<T> key_rows(const Mat<T>& qkv) const;

  Blueprint blueprint_;
  const ModelConfig& model_;
  const ParameterStore<T>& parameters_;
  ModelSlots slots_;
  Arena arena_;
  TensorSet input_, head_, work_;
  std::vector<TensorSet> blocks_;
  Buffer<Real> rope_table_;
  AttentionShape attention_;
  BackwardHooks hooks_;
};

}  // namespace espalier
