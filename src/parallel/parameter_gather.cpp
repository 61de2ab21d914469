// SPDX-License-Identifier: Apache-2.0
// Exchanges of owned ranges, by bucket and by block.
#include "parallel/parameter_gather.hpp"

#include <deque>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "parallel/streams.hpp"
#include "tensor/types.hpp"

namespace espalier {

template <class T>
ParameterGather<T>::ParameterGather(const Comm& shard, const Partition& partition)
    : shard_(shard), partition_(partition) {
  ESPALIER_REQUIRE(partition.shards == shard.size(), "a partition in {} shards for {} ranks",
                   partition.shards, shard.size());
  owned_.resize(partition.blocks.size());
  for (size_t block = 0; block < owned_.size(); ++block)
    for (int64_t s = 0; s < partition.shards; ++s)
      owned_[block].push_back(partition.owned_in_block(s, static_cast<int64_t>(block)));
}

// Where a received element belongs. A test may have rank 0 lose those of the last bucket.
template <class T>
T* ParameterGather<T>::target(T* place, int64_t flat) {
  if (!is_broken_for_test("zero_gather") || shard_.rank() != 0) return place;
  const Bucket& last = partition_.buckets.back();
  if (flat < last.offset || flat >= last.offset + last.size) return place;
  if (scrap_.size() == 0) scrap_ = Buffer<T>("parameters.scrap", last.size);
  return scrap_.data() + flat - last.offset;
}

template <class T>
Request ParameterGather<T>::start_bucket(const Bucket& bucket, T* flat) {
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  const auto bytes = [&](int r) {
    const auto s = static_cast<size_t>(r);
    return (bucket.cuts[s + 1] - bucket.cuts[s]) * static_cast<int64_t>(sizeof(T));
  };
  const int me = shard_.rank();
  for (int r = 0; r < shard_.size(); ++r) {
    if (r == me) continue;
    const int64_t first = bucket.cuts[static_cast<size_t>(r)];
    if (bytes(me) > 0) out.push_back({flat + bucket.cuts[static_cast<size_t>(me)], bytes(me), r});
    if (bytes(r) > 0) in.push_back({target(flat + first, first), bytes(r), r});
  }
  return shard_.start_exchange(out, in, kGatherStream);
}

template <class T>
void ParameterGather<T>::gather_all(T* flat) {
  if (shard_.size() == 1) return;
  std::deque<Request> under_way;
  for (const Bucket& bucket : partition_.buckets) {
    if (static_cast<int64_t>(under_way.size()) == kGatherLanes) {
      under_way.front().wait();
      under_way.pop_front();
    }
    under_way.push_back(start_bucket(bucket, flat));
  }
  for (Request& request : under_way) request.wait();
}

template <class T>
Request ParameterGather<T>::start(int64_t block, const T* compact, T* block_buffer) {
  ESPALIER_REQUIRE(block >= 0 && block < static_cast<int64_t>(owned_.size()),
                   "parameters of block {} of {}", block, owned_.size());
  const auto& owned = owned_[static_cast<size_t>(block)];
  const int64_t start = partition_.blocks[static_cast<size_t>(block)].offset;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  std::vector<OutPiece> out;
  std::vector<InPiece> in;
  for (int r = 0; r < shard_.size(); ++r)
    for (const OwnedRange& range : owned[static_cast<size_t>(r)]) {
      T* place = block_buffer + range.flat - start;
      if (r != shard_.rank()) {
        in.push_back({target(place, range.flat), range.size * kBytes, r});
        continue;
      }
      const T* own = compact + range.compact;
      device::copy(place, own, range.size * kBytes);
      for (int other = 0; other < shard_.size(); ++other)
        if (other != r) out.push_back({own, range.size * kBytes, other});
    }
  return shard_.start_exchange(out, in, kGatherStream);
}

template class ParameterGather<float>;
template class ParameterGather<double>;
template class ParameterGather<bf16>;
template class ParameterGather<fp16>;

}  // namespace espalier
