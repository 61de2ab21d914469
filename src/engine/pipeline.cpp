// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline.hpp"

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"

namespace espalier {

template <class T>
Pipeline<T>::Pipeline(const Blueprint& blueprint, Stage<T>& stage, const Comm* pp)
    : blueprint_(blueprint),
      schedule_(blueprint.schedule),
      stage_(stage),
      pp_(pp),
      rank_(blueprint.rank.pipeline),
      graphed_(stage),
      seconds_(blueprint.chunks.size()) {
  ESPALIER_REQUIRE(schedule_.ranks == 1 || (pp != nullptr && pp->size() == schedule_.ranks),
                   "a pipeline of {} ranks without their communicator", schedule_.ranks);
  if (schedule_.ranks == 1 && schedule_.chunks > 1)
    hand_over_ = Buffer<T>("pipeline.hand_over", stage.boundary_size());
}

template <class T>
int64_t Pipeline<T>::slot(const PipelineAction& a) const {
  return a.micro_batch % blueprint_.chunks[static_cast<size_t>(a.chunk)].slots;
}

template <class T>
bool Pipeline<T>::hands_over(int64_t chunk) const {
  return schedule_.ranks == 1 && chunk + 1 < schedule_.chunks;
}

// Messages of one direction to one chunk come in the order of micro-batches on both sides.
template <class T>
int Pipeline<T>::tag(const PipelineAction& transfer) const {
  const bool is_forward =
      transfer.kind == ActionKind::send_forward || transfer.kind == ActionKind::recv_forward;
  return static_cast<int>(2 * receiver_chunk(schedule_, rank_, transfer) + (is_forward ? 0 : 1));
}

// A buffer that no transfer needs any more; more of them come into being as the schedule asks.
template <class T>
typename Pipeline<T>::Transfer& Pipeline<T>::take(std::vector<std::unique_ptr<Transfer>>& pool,
                                                  int64_t micro_batch, int64_t chunk) {
  Transfer* free = nullptr;
  for (auto& t : pool)
    if (t->is_free && t->request.test()) free = t.get();
  if (free == nullptr) {
    pool.push_back(std::make_unique<Transfer>());
    free = pool.back().get();
    free->data = Buffer<T>("pipeline.transfer", stage_.boundary_size(), Contents::undefined);
  }
  free->is_free = false;
  free->micro_batch = micro_batch;
  free->chunk = chunk;
  return *free;
}

template <class T>
typename Pipeline<T>::Transfer& Pipeline<T>::arrived(std::vector<std::unique_ptr<Transfer>>& pool,
                                                     int64_t micro_batch, int64_t chunk) {
  for (auto& t : pool) {
    if (t->is_free || t->micro_batch != micro_batch || t->chunk != chunk) continue;
    t->request.wait();
    return *t;
  }
  throw InternalError(
      fmt::format("no transfer of micro-batch {}, chunk {} was posted", micro_batch, chunk));
}

template <class T>
void Pipeline<T>::post_receive(const PipelineAction& a) {
  Transfer& t =
      take(a.kind == ActionKind::recv_forward ? inputs_ : d_outputs_, a.micro_batch, a.chunk);
  const Peer peer = peer_of(schedule_, rank_, a);
  t.request =
      pp_->start_recv(t.data.data(), stage_.boundary_size(), static_cast<int>(peer.rank), tag(a));
}

template <class T>
void Pipeline<T>::send(const PipelineAction& a) {
  auto& pool = a.kind == ActionKind::send_forward ? outputs_ : d_inputs_;
  Transfer& t = arrived(pool, a.micro_batch, a.chunk);
  if (is_broken_for_test("pipeline_gradient") && a.kind == ActionKind::send_backward)
    device::fill(t.data.data(), 0, t.data.bytes());
  if (is_broken_for_test("pipeline_activation") && a.kind == ActionKind::send_forward)
    device::fill(t.data.data(), 0, t.data.bytes());
  const Peer peer = peer_of(schedule_, rank_, a);
  t.request =
      pp_->start_send(t.data.data(), stage_.boundary_size(), static_cast<int>(peer.rank), tag(a));
  t.is_free = true;  // once the request is complete
}

template <class T>
void Pipeline<T>::forward(const PipelineAction& a, const TokenBatch& tokens, Mode mode) {
  const ChunkPlan& chunk = blueprint_.chunks[static_cast<size_t>(a.chunk)];
  if (!chunk.is_first && schedule_.ranks > 1) {
    Transfer& t = arrived(inputs_, a.micro_batch, a.chunk);
    device::copy(stage_.input(a.chunk, slot(a)), t.data.data(), t.data.bytes());
    t.is_free = true;
  }
  T* output = nullptr;
  if (hands_over(a.chunk))
    output = stage_.input(a.chunk + 1, slot({a.kind, a.micro_batch, a.chunk + 1}));
  else if (!chunk.is_last)
    output = take(outputs_, a.micro_batch, a.chunk).data.data();
  timed(mode == Mode::train ? &seconds_[static_cast<size_t>(a.chunk)].forward : nullptr,
        [&] { stage_.forward(a.chunk, slot(a), tokens, output, mode); });
}

template <class T>
void Pipeline<T>::backward(const PipelineAction& a, double gradient_scale) {
  if (is_broken_for_test("throw_in_step")) throw InternalError("a test asked for this error");
  const ChunkPlan& chunk = blueprint_.chunks[static_cast<size_t>(a.chunk)];
  Transfer* from = nullptr;
  const T* d_output = nullptr;
  if (hands_over(a.chunk)) {
    d_output = hand_over_.data();
  } else if (!chunk.is_last) {
    from = &arrived(d_outputs_, a.micro_batch, a.chunk);
    d_output = from->data.data();
  }
  T* d_input = nullptr;
  if (!chunk.is_first)
    d_input = schedule_.ranks == 1 ? hand_over_.data()
                                   : take(d_inputs_, a.micro_batch, a.chunk).data.data();
  const BackwardPart part =
      a.kind == ActionKind::backward ? BackwardPart::together : BackwardPart::input;
  timed(&seconds_[static_cast<size_t>(a.chunk)].backward_input, [&] {
    stage_.backward(a.chunk, slot(a), d_output, d_input, gradient_scale, part, a.micro_batch);
  });
  if (from != nullptr) from->is_free = true;
}

// The last micro-batch starts reductions over data-parallel ranks in its middle.
template <class T>
bool Pipeline<T>::is_graphed(int64_t micro_batch) const {
  if (!device::kPresent || !blueprint_.config.numerics.graphs) return false;
  return blueprint_.config.grid.data_parallel == 1 || micro_batch + 1 < schedule_.micro_batches;
}

template <class T>
void Pipeline<T>::graphed(int64_t micro_batch, const TokenBatch& tokens, double gradient_scale) {
  stage_.take_tokens(0, 0, tokens, Mode::train);
  graphed_.run(gradient_scale);
  stage_.keep_losses(micro_batch);
}

// On a device the time of a chunk is the device's; only those of several ranks are compared.
template <class T>
template <class F>
void Pipeline<T>::timed(double* seconds, const F& work) {
  if constexpr (device::kPresent) {
    if (seconds == nullptr || schedule_.ranks == 1) return work();
    if (clocks_used_ == clocks_.size()) clocks_.emplace_back();
    Clock& clock = clocks_[clocks_used_++];
    clock.seconds = seconds;
    clock.from.record();
    work();
    clock.to.record();
  } else {
    const double start = monotonic_seconds();
    work();
    if (seconds != nullptr) *seconds += monotonic_seconds() - start;
  }
}

template <class T>
void Pipeline<T>::read_clocks() {
  if constexpr (!device::kPresent) return;
  device::Stream::compute().synchronize();
  for (size_t i = 0; i < clocks_used_; ++i)
    *clocks_[i].seconds += device::Event::seconds(clocks_[i].from, clocks_[i].to);
  makespan_ = device::Event::seconds(makespan_clock_.from, makespan_clock_.to);
  clocks_used_ = 0;
}

template <class T>
void Pipeline<T>::start_train(const std::vector<TokenBatch>& micro_batches, double gradient_scale) {
  ESPALIER_REQUIRE(static_cast<int64_t>(micro_batches.size()) == schedule_.micro_batches,
                   "{} micro-batches for a schedule of {}", micro_batches.size(),
                   schedule_.micro_batches);
  stage_.reserve_losses(schedule_.micro_batches);
  std::fill(seconds_.begin(), seconds_.end(), ChunkSeconds{});
  const double begin = monotonic_seconds();
  makespan_clock_.from.record();
  for (const PipelineAction& a : schedule_.by_rank[static_cast<size_t>(rank_)]) {
    const auto m = static_cast<size_t>(a.micro_batch);
    switch (a.kind) {
      case ActionKind::forward:
        if (is_graphed(a.micro_batch))
          graphed(a.micro_batch, micro_batches[m], gradient_scale);
        else
          forward(a, micro_batches[m], Mode::train);
        break;
      case ActionKind::backward:
      case ActionKind::backward_input:
        if (!is_graphed(a.micro_batch)) backward(a, gradient_scale);
        break;
      case ActionKind::backward_weight: {
        timed(&seconds_[static_cast<size_t>(a.chunk)].backward_weight,
              [&] { stage_.backward_weight(a.chunk, slot(a)); });
        break;
      }
      case ActionKind::recv_forward:
      case ActionKind::recv_backward: post_receive(a); break;
      case ActionKind::send_forward:
      case ActionKind::send_backward: send(a); break;
    }
  }
  makespan_clock_.to.record();
  finish();
  makespan_ = monotonic_seconds() - begin;
}

template <class T>
std::vector<double> Pipeline<T>::finish_train() {
  const std::vector<double> sums = losses(static_cast<size_t>(schedule_.micro_batches));
  read_clocks();
  return sums;
}

template <class T>
std::vector<double> Pipeline<T>::evaluate(const std::vector<TokenBatch>& micro_batches) {
  stage_.reserve_losses(static_cast<int64_t>(micro_batches.size()));
  for (size_t m = 0; m < micro_batches.size(); ++m) {
    for (int64_t c = 0; c < schedule_.chunks; ++c) {
      const ChunkPlan& chunk = blueprint_.chunks[static_cast<size_t>(c)];
      const auto number = static_cast<int64_t>(m);
      const PipelineAction compute{ActionKind::forward, number, c};
      if (!chunk.is_first && schedule_.ranks > 1)
        post_receive({ActionKind::recv_forward, number, c});
      forward(compute, micro_batches[m], Mode::evaluate);
      if (chunk.is_last)
        stage_.loss(slot(compute), number);
      else if (schedule_.ranks > 1)
        send({ActionKind::send_forward, number, c});
    }
  }
  finish();
  return losses(micro_batches.size());
}

template <class T>
std::vector<double> Pipeline<T>::losses(size_t micro_batches) const {
  if (blueprint_.chunks.back().is_last)
    return stage_.loss_sums(static_cast<int64_t>(micro_batches));
  return std::vector<double>(micro_batches, 0.0);
}

template <class T>
void Pipeline<T>::progress() {
  for (auto* pool : {&outputs_, &inputs_, &d_outputs_, &d_inputs_})
    for (auto& t : *pool) t->request.test();
}

template <class T>
void Pipeline<T>::finish() {
  for (auto* pool : {&outputs_, &d_inputs_})
    for (auto& t : *pool) t->request.wait();
}

template class Pipeline<float>;
template class Pipeline<double>;
template class Pipeline<bf16>;
template class Pipeline<fp16>;

}  // namespace espalier
