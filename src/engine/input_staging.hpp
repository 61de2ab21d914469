// SPDX-License-Identifier: Apache-2.0
// The way of a micro-batch's tokens from the host into the memory of a stage.
#pragma once

#include <array>
#include <cstdint>

#include "device/buffer.hpp"
#include "tensor/arena.hpp"

namespace espalier {

/// The tokens of one micro-batch, in host memory; see corpus/batch_source.hpp for the meaning.
struct TokenBatch {
  const int32_t* inputs = nullptr;
  const int32_t* targets = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* document_start = nullptr;
  const int64_t* first_token =
      nullptr;  // global index of each sequence's first; null without dropout
  int64_t sequences = 0, length = 0;
};

/// The same where kernels read it.
struct StageInputs {
  const int32_t *tokens = nullptr, *targets = nullptr, *positions = nullptr,
                *document_start = nullptr;
  const int64_t *token_index = nullptr, *first_token = nullptr;  // null without dropout
};

/// Copies through pinned buffers that take turns, so that neither the host waits for the device nor
/// a buffer is written again before it was read. On the host it copies once.
class InputStaging {
 public:
  /// `set` holds the tensors that the activation plan lists as input. The batch has been read when
  /// the call returns.
  StageInputs load(const TensorSet& set, const TokenBatch& batch);

 private:
  struct Turn {
    PinnedBuffer<std::byte> memory;
    device::Event copied;
  };
  /// Micro-batches that the host may be ahead of the device.
  static constexpr size_t kTurns = 4;
  std::array<Turn, kTurns> turns_;
  size_t next_ = 0;
};

}  // namespace espalier
