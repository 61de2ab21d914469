// SPDX-License-Identifier: Apache-2.0
#include "engine/input_staging.hpp"

#include <cstring>

namespace espalier {

StageInputs InputStaging::load(const TensorSet& set, const TokenBatch& batch) {
  const int64_t count = batch.sequences * batch.length;
  const bool drops = batch.first_token != nullptr;
  constexpr auto kIndex = static_cast<int64_t>(sizeof(int32_t));
  constexpr auto kWide = static_cast<int64_t>(sizeof(int64_t));
  std::byte* place = nullptr;
  Turn& turn = turns_[next_];
  if constexpr (device::kPresent) {
    next_ = (next_ + 1) % kTurns;
    turn.copied.wait();
    // Wide numbers first: they need the stricter alignment.
    const int64_t bytes = (count + batch.sequences) * kWide + 4 * count * kIndex;
    if (turn.memory.size() < bytes) turn.memory = PinnedBuffer<std::byte>(bytes);
    place = turn.memory.data();
  }
  const auto move = [&](auto* to, const auto* from, int64_t bytes) {
    const void* source = from;
    if constexpr (device::kPresent) {
      std::memcpy(place, from, static_cast<size_t>(bytes));
      source = place;
      place += bytes;
    }
    device::copy(to, source, bytes);
    return to;
  };
  StageInputs in;
  if (drops) {
    std::vector<int64_t> index(static_cast<size_t>(count));
    for (int64_t s = 0; s < batch.sequences; ++s)
      for (int64_t t = 0; t < batch.length; ++t)
        index[static_cast<size_t>(s * batch.length + t)] = batch.first_token[s] + t;
    in.token_index = move(set.get<int64_t>("token_index").data(), index.data(), count * kWide);
    in.first_token =
        move(set.get<int64_t>("first_token").data(), batch.first_token, batch.sequences * kWide);
  }
  const auto indices = [&](const char* name, const int32_t* from) {
    return move(set.get<int32_t>(name).data(), from, count * kIndex);
  };
  in.tokens = indices("inputs", batch.inputs);
  in.targets = indices("targets", batch.targets);
  in.positions = indices("positions", batch.positions);
  in.document_start = indices("document_start", batch.document_start);
  if constexpr (device::kPresent) turn.copied.record();
  return in;
}

}  // namespace espalier
