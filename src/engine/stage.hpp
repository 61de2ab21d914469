// SPDX-License-Identifier: Apache-2.0
// The operators of the stages that one rank holds, forward and backward, on planned memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "engine/block_access.hpp"
#include "engine/input_staging.hpp"
#include "engine/shards.hpp"
#include "layers/attention.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/linear.hpp"
#include "layers/norm.hpp"
#include "layers/rope.hpp"
#include "parallel/tensor_parallel.hpp"
#include "tensor/arena.hpp"

namespace espalier {

/// Dropout is at work while training only.
enum class Mode { train, evaluate };

/// together: all gradients at once. input: those of the weights wait for backward_weight().
enum class BackwardPart { together, input };

/// A rank's chunks. Activations between products are this rank's tokens [own tokens, hidden]: all
/// tokens of the micro-batch unless sequence parallelism cuts them.
///
/// Slots  micro-batches whose activations live at once; the caller numbers them from 0 for each
///        chunk and does not use one again before its backward pass is done
template <class T>
class Stage {
 public:
  using Real = Acc<T>;
  /// `blocks` and `tp` must outlive the stage; `tp` null: one tensor-parallel rank.
  Stage(const Blueprint& blueprint, BlockAccess<T>& blocks, const Comm* tp);

  /// Elements of what passes between chunks.
  int64_t boundary_size() const { return plan_.own_tokens.count * model_.hidden_size; }
  int64_t boundary_bytes() const { return boundary_size() * static_cast<int64_t>(sizeof(T)); }
  /// Where the output of the chunk before has to be when forward() is called.
  T* input(int64_t chunk, int64_t slot) const;

  /// Brings the tokens of a micro-batch to where forward_pass() and backward() read them.
  void take_tokens(int64_t chunk, int64_t slot, const TokenBatch& tokens, Mode mode);
  /// `output` [own tokens, hidden] receives what the next chunk reads; unused on the last one.
  void forward_pass(int64_t chunk, int64_t slot, T* output);
  /// Both.
  void forward(int64_t chunk, int64_t slot, const TokenBatch& tokens, T* output, Mode mode) {
    take_tokens(chunk, slot, tokens, mode);
    forward_pass(chunk, slot, output);
  }

  /// Losses of the tokens, no gradients, to be read as entry `number`. After forward() of the last
  /// chunk.
  void loss(int64_t slot, int64_t number);

  /// Gradients of gradient_scale times the sum of the losses. On the last chunk `d_output` is
  /// unused and the losses become entry `number`, else `d_output` is the gradient of forward()'s
  /// output; `d_input` receives the gradient of its input, unused on the first chunk.
  void backward(int64_t chunk, int64_t slot, const T* d_output, T* d_input, double gradient_scale,
                BackwardPart part, int64_t number) {
    backward_pass(chunk, slot, d_output, d_input, gradient_scale, part);
    if (blueprint_.chunks[static_cast<size_t>(chunk)].is_last) keep_losses(number);
  }
  /// The same, the losses not yet kept as an entry: keep_losses() does that before another
  /// micro-batch comes.
  void backward_pass(int64_t chunk, int64_t slot, const T* d_output, T* d_input,
                     double gradient_scale, BackwardPart part);
  void keep_losses(int64_t number);
  /// What backward_pass() tells the blocks when a micro-batch is done, for one whose work came out
  /// of a graph.
  void tell_gradients_done(int64_t chunk);
  /// Whether the next backward_pass() of the chunk begins a sum over micro-batches.
  bool begins_sum(int64_t chunk) const;
  /// After backward(..., BackwardPart::input).
  void backward_weight(int64_t chunk, int64_t slot);

  /// Room for losses of `count` micro-batches, with numbers from 0.
  void reserve_losses(int64_t count);
  /// Sum of the losses over the valid tokens of each of the first `count` entries. Waits for the
  /// device: once a step.
  std::vector<double> loss_sums(int64_t count) const;

 private:
  /// What a micro-batch keeps in a chunk.
  struct Kept {
    TensorSet input, head;
    std::vector<TensorSet> layers, split;
    StageInputs in;
    Mode mode = Mode::train;
  };
  /// One layer of one micro-batch at work.
  struct At {
    Kept& kept;
    int64_t layer, index;  // in the model, in the chunk
    const TensorSet& block;
    const LayerSlots& slots;
    BlockView<const T> w;
    Mat<T> tensor(const std::string& name) const { return block.get<T>(name); }
    Mat<Real> sums(const std::string& name) const { return block.get<Real>(name); }
  };

  void plan_slots();
  At at(Kept& kept, const ChunkPlan& chunk, int64_t layer, BlockView<const T> w);
  Kept& kept(int64_t chunk, int64_t slot) { return kept_[chunk][slot]; }

  // forward
  void embed(const Kept& k, const Mat<T>& x);
  void first_norm(const At& a);
  void enter_block(const At& a, const At* before);
  Mat<T> all_tokens(const Mat<T>& own, const char* buffer);
  bool is_one_product(const ShardUnits& units) const;
  bool project(const Mat<T>& y, const Mat<const T>& x, const At& a, const LinearSlots& slots,
               const ShardUnits& units);
  void project_qkv(const At& a);
  void qk_norm_forward(const At& a);
  void rotate(const Mat<T>& qkv, Rotation rotation, const StageInputs& in);
  void attend(const At& a);
  void forward_attention(const At& a);
  void mlp_input(const At& a);
  void up_and_activate(const At& a);
  enum class Branches { attention, mlp, both };
  void add_branches(const At& a, Branches branches);
  void forward_block(const At& a);
  void recompute(const At& a);
  void leave_chunk(const At& last, T* output);
  void final_norm(const At& last);

  // head
  void head(Kept& k, double gradient_scale, Gradient mode);
  void token_losses(const Kept& k, int64_t first, const Mat<T>& logits, double gradient_scale,
                    Gradient gradient);
  void backward_head(Kept& k, double gradient_scale);

  // backward
  void backward_block(const At& a, BackwardPart part);
  Mat<T> branch_gradient(const At& a, const char* branch, BackwardPart part);
  enum class UpBias { open, done };  // whether up's bias has its gradient already
  UpBias backward_mlp(const At& a, const Mat<T>& dy, const Mat<T>& d_up, const Vec<Real>& up_bias);
  void backward_attention(const At& a, const Mat<T>& dy, const Mat<T>& d_qkv);
  void attention_gradients(const At& a, int64_t first_head, int64_t heads,
                           const QueryKeyValue<T>& d_in, const QueryKeyValue<T>& in,
                           int64_t kv_heads);
  void shared_key_gradients(const At& a, const Mat<T>& d_qkv);
  void backward_embedding(const Kept& k);

  // parameter gradients
  void mlp_weights(const At& a, const GradientView<Real>& g, const Mat<T>& dy, const Mat<T>& d_up,
                   UpBias up_bias);
  void attention_weights(const At& a, const GradientView<Real>& g, const Mat<T>& dy,
                         const Mat<T>& d_qkv);
  enum class NormsOf { all, heads };
  void norm_weights(const At& a, const GradientView<Real>& g, const Real* values, NormsOf which);
  enum class Parallel { columns, rows };
  void linear_gradients(const GradientView<Real>& g, const LinearSlots& slots, const Mat<T>& dy,
                        const Mat<T>& x, const ShardUnits& units, Parallel parallel);
  void stream_norm_backward(const NormSlots& slots, const BlockView<const T>& w, const Mat<T>& x,
                            const Mat<Real>& statistics, const Mat<T>& dy, Accumulate accumulate,
                            Real* result, const GradientView<Real>* g);
  bool adds_norms_at_once() const { return !cuts_tokens() && norm_slices().size() == 1; }
  void qk_norm_backward(const At& a, const Mat<T>& d_qkv);
  void sum_head_norms(Real* result);
  void sum_token_norms(Real* result, int64_t width);
  std::vector<Range> norm_slices() const;
  static constexpr auto kReal = static_cast<int64_t>(sizeof(Real));

  NormParameters<T> norm_parameters(BlockView<const T> w, const NormSlots& s) const {
    return {w.vector(s.weight), w.vector(s.bias)};
  }
  DropoutMask mask(const char* place, int64_t layer, double probability, const Kept& k) const;
  AttentionDropout attention_dropout(const At& a, int64_t first_head) const;
  const int64_t* own_token_index(const Kept& k) const;
  QueryKeyValue<T> views(const Mat<T>& qkv) const;
  RowSet<T> head_rows(const Mat<T>& qkv, int64_t column, int64_t heads) const;
  bool cuts_tokens() const { return split_.sequence; }

  Blueprint blueprint_;
  const ModelConfig& model_;
  const ActivationPlan& plan_;
  const TensorSplit& split_;
  BlockAccess<T>& access_;
  ModelSlots slots_;
  LayerUnits units_;
  KeyValueSplit keys_;
  TensorParallel<T> tp_;
  Arena arena_;
  TensorSet work_, recomputed_;
  std::vector<std::vector<Kept>> kept_;
  std::unique_ptr<ShardSum<T>> shard_sum_;
  Buffer<Real> rope_table_;
  Buffer<Real> head_norms_;  // the queries' and keys' share of a block's norm gradients
  InputStaging staging_;
  PinnedBuffer<Real> losses_;  // [entries, tokens]
  AttentionShape attention_;
};

}  // namespace espalier
