// SPDX-License-Identifier: Apache-2.0
// The stream of micro-batches that a deck asks for: a pure function of step and micro-batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "corpus/data_order.hpp"
#include "corpus/token_windows.hpp"
#include "deck/config.hpp"

namespace espalier {

/// One micro-batch: sequences * length tokens, row-major [sequences, length].
struct MicroBatch {
  int64_t sequences = 0, length = 0;
  std::vector<int32_t> inputs, targets;  // targets: -1 where no token is predicted
  std::vector<int32_t> positions;        // fed to the model; restart at a document if asked
  std::vector<int32_t> document_start;   // index in the sequence of the first token that this
                                         // query may attend to; 0 when no document mask
  std::vector<int64_t> first_token;      // [sequences], global index of each one's first token
  int64_t valid_tokens = 0;              // number of targets >= 0
  /// Sum (mod 2^64) over the sequences of XXH3(inputs and last target as int32, seed = global
  /// position of the sequence): does not depend on how sequences are grouped.
  uint64_t token_hash = 0;
};

enum class Stream { train, validation };

/// The training or the validation stream of a deck.
///
/// Sequence b of step s is sample p = position_of(s) + b, s * global_batch_size + b unless
/// continue_from() says otherwise. Training takes window
/// DataOrder(p), endlessly; validation takes batches() * global_batch_size windows that are spread
/// evenly over its files, in their order.
/// No rank number enters, so the stream is the same on every grid.
/// With data.document_mask, document_start is set at each document, positions restart there (with
/// data.reset_positions), and nothing is predicted after an end-of-document token. A window that
/// starts inside a document counts positions from its own start.
/// Thread-safe after construction.
/// Errors    DataError for bad files, for too few tokens, or ids that the model does not have
class BatchSource {
 public:
  BatchSource(const Config& config, Stream stream);

  /// Fills `out` with micro-batch `micro_batch` (0 .. micro_batches() - 1) of the global batch of
  /// `step`. Vectors in `out` are reused.
  /// Errors    DataError if a token in the file is damaged; Internal if an index is out of range
  void fill(int64_t step, int64_t micro_batch, MicroBatch& out) const;

  /// Step `step` begins with sample `position`, and the following ones go on behind it: resuming at
  /// another global_batch_size goes on with the same stream. Before any thread fills.
  void continue_from(int64_t step, int64_t position) {
    first_step_ = step;
    first_position_ = position;
  }
  /// The sample with which a step begins.
  int64_t position_of(int64_t step) const {
    return first_position_ + (step - first_step_) * global_batch_size_;
  }

  int64_t micro_batches() const { return global_batch_size_ / micro_batch_size_; }  ///< a step
  int64_t batches() const { return batches_; }  ///< global batches there are; training: endless
  int64_t windows() const { return windows_->windows(); }
  int64_t tokens() const;              ///< in the files; TokenWindows::kEndless if random
  double epochs(int64_t steps) const;  ///< passes over the data after so many steps
  const std::string& tokenizer() const { return tokenizer_; }  ///< name; empty if random
  int32_t end_of_document() const { return windows_->end_of_document(); }

 private:
  void open_files(const Config& config, Stream stream);
  void fill_sequence(int64_t position, int64_t row, std::vector<int32_t>& window,
                     MicroBatch& out) const;

  int64_t seq_length_, micro_batch_size_, global_batch_size_;
  int64_t first_step_ = 0, first_position_ = 0;
  int64_t batches_ = TokenWindows::kEndless;
  int64_t spread_ = 0;  // validation from files: the windows that are looked at
  bool document_mask_, reset_positions_;
  std::unique_ptr<const TokenWindows> windows_;
  std::optional<DataOrder> order_;  // training from files only
  std::string tokenizer_;
};

}  // namespace espalier
