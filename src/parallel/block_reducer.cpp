// SPDX-License-Identifier: Apache-2.0
// Scratch, its exchanges in the order of submission, and the sum over replicas.
#include "parallel/block_reducer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "parallel/ordered_reduction.hpp"
#include "parallel/streams.hpp"
#include "tensor/profile.hpp"
#include "tensor/types.hpp"

namespace espalier {
template <class Real>
BlockReducer<Real>::BlockReducer(const Comm& shard, const Comm& replica, const Partition& partition,
                                 ElementType wire, Sink sink)
    : shard_(shard), replica_(replica), partition_(partition), sink_(std::move(sink)) {
  ESPALIER_REQUIRE(partition.shards == shard.size(), "a partition in {} shards for {} ranks",
                   partition.shards, shard.size());
  const LargestSizes sizes = largest_block(partition);
  for (size_t b = 0; b < partition.blocks.size(); ++b) {
    owned_.push_back(partition.owned_in_block(shard.rank(), static_cast<int64_t>(b)));
    slices_.push_back(slices_of_block(partition, static_cast<int64_t>(b)));
  }
  for (int64_t i = 0; i < kScratch; ++i) {
    Scratch scratch;
    scratch.data = Buffer<Real>("gradient_scratch", sizes.whole);
    scratch.exchange = make_slice_exchange<Real>(shard, wire, sizes.whole, sizes.owned);
    pool_.push_back(std::move(scratch));
  }
  for (int lane = 0; lane < kReplicaLanes; ++lane)
    lanes_.push_back(make_ordered_reduction<Real>(replica, wire, replica_piece(partition),
                                                  kReplicaStream + lane));
}

template <class Real>
BlockReducer<Real>::~BlockReducer() = default;

template <class Real>
Real* BlockReducer<Real>::acquire(int64_t block) {
  ESPALIER_REQUIRE(block >= 0 && block < static_cast<int64_t>(owned_.size()),
                   "gradients of block {} of {}", block, owned_.size());
  const auto find = [this] {
    return std::find_if(pool_.begin(), pool_.end(),
                        [](const Scratch& s) { return s.use == Use::free; });
  };
  if (find() == pool_.end()) {
    ESPALIER_REQUIRE(!travelling_.empty(), "all {} scratch buffers are held and none was submitted",
                     pool_.size());
    shard_.wait_until(
        [&] {
          progress();
          return find() != pool_.end();
        },
        "gradient reduction");
  }
  Scratch& scratch = *find();
  scratch.use = Use::held;
  scratch.block = block;
  device::Stream::current().wait_for(scratch.freed);
  Profile::instance().separate();
  return scratch.data.data();
}

template <class Real>
void BlockReducer<Real>::submit(int64_t block, Real* data) {
  const auto scratch = std::find_if(pool_.begin(), pool_.end(),
                                    [&](const Scratch& s) { return s.data.data() == data; });
  ESPALIER_REQUIRE(scratch != pool_.end() && scratch->use == Use::held && scratch->block == block,
                   "scratch submitted for block {} was not acquired for it", block);
  scratch->use = Use::waiting;
  scratch->filled.record();
  travelling_.push_back(scratch - pool_.begin());
  progress();
}

// In the order of submission. An exchange starts when the device has filled its scratch: if the
// communication stream waited for it instead, so would the sums of the blocks before.
template <class Real>
void BlockReducer<Real>::start_filled() {
  for (const int64_t at : travelling_) {
    Scratch& scratch = pool_[static_cast<size_t>(at)];
    if (scratch.use == Use::travelling) continue;
    if (!scratch.filled.is_reached()) return;
    scratch.use = Use::travelling;
    if (!is_broken_for_test("block_reduction"))
      scratch.exchange->start_sum(scratch.data.data(), slices_[static_cast<size_t>(scratch.block)],
                                  kBlockStream);
  }
}

// Only the oldest is looked at: sums go to the sink in the order of submission.
template <class Real>
void BlockReducer<Real>::progress() {
  const OnSideStream scope;
  start_filled();
  while (!travelling_.empty()) {
    Scratch& scratch = pool_[static_cast<size_t>(travelling_.front())];
    if (scratch.use == Use::waiting || !scratch.exchange->progress()) return;
    travelling_.pop_front();
    const int64_t start = partition_.blocks[static_cast<size_t>(scratch.block)].offset;
    for (const OwnedRange& range : owned_[static_cast<size_t>(scratch.block)])
      sink_(scratch.block, range, scratch.data.data() + range.flat - start);
    scratch.freed.record();
    scratch.use = Use::free;
  }
}

template <class Real>
void BlockReducer<Real>::drain() {
  if (!travelling_.empty())
    shard_.wait_until(
        [this] {
          progress();
          return travelling_.empty();
        },
        "gradient reduction");
  side_.join();
}

template <class Real>
void BlockReducer<Real>::reduce_over_replicas(Real* compact) {
  ESPALIER_REQUIRE(travelling_.empty(), "{} blocks still travel at the sum over replicas",
                   travelling_.size());
  if (replica_.size() == 1 || is_broken_for_test("replica_reduction")) return;
  const int64_t size = partition_.compact_size(shard_.rank());
  const int64_t piece = replica_piece(partition_);
  side_.leave();
  int64_t next = 0;  // the first piece that has not started; pieces take turns over the lanes
  const auto push = [&] {
    const OnSideStream scope;
    bool is_idle = true;
    for (const auto& lane : lanes_) is_idle = lane->progress() && is_idle;
    for (; next * piece < size; ++next) {
      OrderedReduction<Real>& lane = *lanes_[static_cast<size_t>(next % kReplicaLanes)];
      if (!lane.progress()) return false;
      lane.start(compact + next * piece, std::min(piece, size - next * piece));
      is_idle = false;
    }
    return is_idle;
  };
  replica_.wait_until(push, "gradient reduction");
  side_.join();
}

template <class Real>
int64_t BlockReducer<Real>::buffer_bytes() const {
  int64_t bytes = 0;
  for (const Scratch& s : pool_) bytes += s.data.bytes() + s.exchange->buffer_bytes();
  for (const auto& lane : lanes_) bytes += lane->buffer_bytes();
  return bytes;
}

template class BlockReducer<float>;
template class BlockReducer<double>;

}  // namespace espalier
