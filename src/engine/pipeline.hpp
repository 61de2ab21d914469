// SPDX-License-Identifier: Apache-2.0
// Plays a rank's part of a pipeline schedule: computes, sends and receives in the order of its
// list.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "engine/graphed_pass.hpp"
#include "engine/stage.hpp"
#include "grid/comm.hpp"

namespace espalier {

/// Seconds of one chunk in a step, waits for neighbours not included.
struct ChunkSeconds {
  double forward = 0.0, backward_input = 0.0, backward_weight = 0.0;
  double total() const { return forward + backward_input + backward_weight; }
};

/// Transfers are nonblocking: a receive is posted where it stands in the list and waited for by the
/// action that needs it; a send is waited for when its buffer is needed again, or at the end.
/// Collective  over the pipeline axis
template <class T>
class Pipeline {
 public:
  using Real = Acc<T>;
  /// `pp` null: one rank. All must outlive it.
  Pipeline(const Blueprint& blueprint, Stage<T>& stage, const Comm* pp);

  /// One step's forward and backward passes, given to the device; what is given to it afterwards
  /// may use the gradients.
  void start_train(const std::vector<TokenBatch>& micro_batches, double gradient_scale);
  /// Waits for the device. Returns the sum of the losses of each micro-batch; zeros on ranks
  /// without the last stage.
  std::vector<double> finish_train();
  /// Both.
  std::vector<double> train(const std::vector<TokenBatch>& micro_batches, double gradient_scale) {
    start_train(micro_batches, gradient_scale);
    return finish_train();
  }
  /// The same without gradients.
  std::vector<double> evaluate(const std::vector<TokenBatch>& micro_batches);

  /// Of the last train(), by chunk.
  const std::vector<ChunkSeconds>& seconds() const { return seconds_; }
  /// From the first action of the last train() to the last.
  double makespan() const { return makespan_; }
  /// Pushes transfers forward; to be called between operators.
  void progress();

 private:
  struct Transfer {
    Buffer<T> data;
    Request request;
    bool is_free = true;
    int64_t micro_batch = -1, chunk = -1;
  };
  Transfer& take(std::vector<std::unique_ptr<Transfer>>& pool, int64_t micro_batch, int64_t chunk);
  Transfer& arrived(std::vector<std::unique_ptr<Transfer>>& pool, int64_t micro_batch,
                    int64_t chunk);
  void post_receive(const PipelineAction& action);
  void send(const PipelineAction& action);
  void forward(const PipelineAction& action, const TokenBatch& tokens, Mode mode);
  void backward(const PipelineAction& action, double gradient_scale);
  bool is_graphed(int64_t micro_batch) const;
  void graphed(int64_t micro_batch, const TokenBatch& tokens, double gradient_scale);
  template <class F>
  void timed(double* seconds, const F& work);
  void read_clocks();
  void finish();
  std::vector<double> losses(size_t micro_batches) const;
  int64_t slot(const PipelineAction& a) const;
  bool hands_over(int64_t chunk) const;  // to the next chunk of the same rank
  int tag(const PipelineAction& transfer) const;

  const Blueprint& blueprint_;
  const Schedule& schedule_;
  Stage<T>& stage_;
  const Comm* pp_;
  int64_t rank_ = 0;
  std::vector<std::unique_ptr<Transfer>> outputs_, inputs_, d_outputs_, d_inputs_;
  Buffer<T> hand_over_;
  GraphedPass<T> graphed_;
  std::vector<ChunkSeconds> seconds_;
  struct Clock {
    device::Event from{device::Event::Timing::yes}, to{device::Event::Timing::yes};
    double* seconds = nullptr;
  };
  std::deque<Clock> clocks_;
  size_t clocks_used_ = 0;
  Clock makespan_clock_;  // on a device
  double makespan_ = 0.0;
};

}  // namespace espalier
