// SPDX-License-Identifier: Apache-2.0
// Buckets, and the lanes in which they travel: shard level, replica level, and back.
#include "parallel/gradient_reducer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "parallel/ordered_reduction.hpp"
#include "parallel/slice_exchange.hpp"
#include "parallel/streams.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// The way of one bucket at a time.
template <class Real>
class ReducerLane {
 public:
  ReducerLane(const Comm& shard, const Comm& replica, const LargestSizes& sizes,
              const ReducerOptions& options, int lane)
      : me_(static_cast<size_t>(shard.rank())),
        stream_(kReducerStream + lane),
        result_(options.result),
        exchange_(make_slice_exchange<Real>(shard, options.wire, sizes.whole, sizes.owned)),
        replicas_(make_ordered_reduction<Real>(replica, options.wire, sizes.owned, stream_)) {}

  void start(Real* data, const Bucket& bucket) {
    data_ = data;
    slices_ = slices_of_bucket(bucket);
    exchange_->start_sum(data, slices_, stream_);
    phase_ = Phase::sum;
  }

  bool progress() {
    if (phase_ == Phase::sum) {
      if (!exchange_->progress()) return false;
      const FlatRange own = slices_[me_].front();
      if (!is_broken_for_test("replica_reduction")) replicas_->start(data_ + own.offset, own.size);
      phase_ = Phase::replicas;
    }
    if (phase_ == Phase::replicas) {
      if (!replicas_->progress()) return false;
      phase_ = Phase::idle;
      if (result_ == ReducerResult::at_owner || is_broken_for_test("gradient_gather")) return true;
      exchange_->start_gather(data_, slices_, stream_);
      phase_ = Phase::gather;
    }
    if (phase_ == Phase::gather && exchange_->progress()) phase_ = Phase::idle;
    return phase_ == Phase::idle;
  }

  int64_t buffer_bytes() const { return exchange_->buffer_bytes() + replicas_->buffer_bytes(); }

 private:
  enum class Phase { idle, sum, replicas, gather };

  const size_t me_;
  const int stream_;
  const ReducerResult result_;
  std::unique_ptr<SliceExchange<Real>> exchange_;
  std::unique_ptr<OrderedReduction<Real>> replicas_;
  Slices slices_;
  Real* data_ = nullptr;
  Phase phase_ = Phase::idle;
};

template <class Real>
GradientReducer<Real>::GradientReducer(const Comm& shard, const Comm& replica,
                                       const Partition& partition, const ReducerOptions& options)
    : waits_on_(shard.size() > 1 ? shard : replica),
      partition_(partition),
      time_(options.time),
      missing_(partition.buckets.size()),
      is_filled_(partition.buckets.size()),
      is_ready_(partition.blocks.size()) {
  ESPALIER_REQUIRE(partition.shards == shard.size(), "a partition in {} shards for {} ranks",
                   partition.shards, shard.size());
  if (shard.size() == 1 && replica.size() == 1) return;
  const LargestSizes sizes = largest_bucket(partition);
  for (int64_t lane = 0; lane < reducer_lanes(partition); ++lane)
    lanes_.push_back(std::make_unique<ReducerLane<Real>>(shard, replica, sizes, options,
                                                         static_cast<int>(lane)));
}

template <class Real>
GradientReducer<Real>::~GradientReducer() = default;

template <class Real>
void GradientReducer<Real>::begin(Real* gradients) {
  ESPALIER_REQUIRE(gradients_ == nullptr, "gradient reduction begun twice without finish");
  ESPALIER_REQUIRE(gradients != nullptr, "gradient reduction without gradients");
  gradients_ = gradients;
  next_ = 0;
  blocks_left_ = static_cast<int64_t>(is_ready_.size());
  std::fill(is_ready_.begin(), is_ready_.end(), 0);
  for (size_t b = 0; b < missing_.size(); ++b)
    missing_[b] = partition_.buckets[b].last_block - partition_.buckets[b].first_block + 1;
}

template <class Real>
void GradientReducer<Real>::ready(int64_t block) {
  ESPALIER_REQUIRE(gradients_ != nullptr, "gradients of block {} ready outside a step", block);
  ESPALIER_REQUIRE(block >= 0 && block < static_cast<int64_t>(is_ready_.size()),
                   "gradients of block {} of {}", block, is_ready_.size());
  char& is_ready = is_ready_[static_cast<size_t>(block)];
  ESPALIER_REQUIRE(!is_ready, "gradients of block {} ready twice in a step", block);
  is_ready = 1;
  --blocks_left_;
  for (size_t b = 0; b < missing_.size(); ++b) {
    const Bucket& bucket = partition_.buckets[b];
    if (block < bucket.first_block || bucket.last_block < block) continue;
    if (--missing_[b] == 0 && !lanes_.empty()) is_filled_[b].record();
  }
  if (time_ == ReduceTime::during_backward) push();
}

template <class Real>
void GradientReducer<Real>::progress() {
  if (gradients_ != nullptr && time_ == ReduceTime::during_backward) push();
}

template <class Real>
void GradientReducer<Real>::finish() {
  ESPALIER_REQUIRE(gradients_ != nullptr, "gradient reduction finished before it began");
  ESPALIER_REQUIRE(blocks_left_ == 0, "the gradients of {} blocks were not ready at the step's end",
                   blocks_left_);
  if (!lanes_.empty()) {
    waits_on_.wait_until([this] { return push(); }, "gradient reduction");
    side_.join();
  }
  gradients_ = nullptr;
}

// True when every bucket has arrived. Buckets start in one order and take turns over the lanes, so
// that all ranks meet in the same exchange. One starts when the device has filled it, not when the
// host has asked for that: the host is a whole backward pass ahead, and if the communication stream
// waited for a later bucket, so would the sums of those that have arrived.
template <class Real>
bool GradientReducer<Real>::push() {
  if (lanes_.empty()) return true;
  const OnSideStream scope;
  bool is_idle = true;
  for (const auto& lane : lanes_) is_idle = lane->progress() && is_idle;
  for (; next_ < static_cast<int64_t>(missing_.size()); ++next_) {
    const auto index = static_cast<size_t>(next_);
    ReducerLane<Real>& lane = *lanes_[index % lanes_.size()];
    if (missing_[index] > 0 || !is_filled_[index].is_reached() || !lane.progress()) return false;
    const Bucket& bucket = partition_.buckets[index];
    lane.start(gradients_ + bucket.offset, bucket);
    is_idle = lane.progress() && is_idle;
  }
  return is_idle;
}

template <class Real>
int64_t GradientReducer<Real>::buffer_bytes() const {
  int64_t bytes = 0;
  for (const auto& lane : lanes_) bytes += lane->buffer_bytes();
  return bytes;
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace espalier
