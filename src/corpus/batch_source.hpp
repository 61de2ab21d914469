// SPDX-License-Identifier: Apache-2.0
// The stream of micro-batches that a deck asks for: a pure function of step and micro-batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "corpus/feed/balance.hpp"
#include "corpus/feed/kept_positions.hpp"
#include "corpus/feed/sample_stream.hpp"
#include "corpus/store/token_array.hpp"
#include "deck/config.hpp"

namespace espalier {

/// One micro-batch: sequences * length tokens, row-major [sequences, length].
struct MicroBatch {
  int64_t sequences = 0, length = 0;
  std::vector<int32_t> inputs, targets;  // targets: -1 where no token is predicted
  std::vector<int32_t> positions;        // fed to the model; restart at a document if asked
  std::vector<int32_t> document_start;   // index in the sequence of the first token that this
                                         // query may attend to; 0 when no document mask. Padding
                                         // attends to itself alone
  std::vector<int64_t> first_token;      // [sequences], global index of each one's first token
  int64_t valid_tokens = 0;              // number of targets >= 0
  int64_t padding = 0;                   // tokens that only fill up; best_fit packing
  int64_t attention_work = 0;            // sum over documents of length^2; of all sequences
  /// Sum (mod 2^64) over the sequences of XXH3(inputs and last target as int32, seed = global
  /// position of the sequence): does not depend on how sequences are grouped.
  uint64_t token_hash = 0;
};

/// One source of a stream, and how far it is used.
struct SourceUse {
  std::string name, language;
  int64_t tokens = 0, samples = 0;
  double share = 0.0;   // of the sequences at this step
  double epochs = 0.0;  // passes over it before this step
};

/// The training or the validation stream of a deck.
///
/// Positions number the sequences of the endless training stream; those in data.skip are left out.
/// Sequence b of step s stands at the b-th kept position from position_of(s) on. What stands at a
/// position depends on seed, sources and weights alone (SampleStream). Which micro-batch of a step
/// takes a sequence: neighbours one, or with data.balance by deal_by_work().
/// Validation takes batches() * global_batch_size samples that are spread evenly over its sources,
/// in their order; it neither mixes, skips nor balances.
/// No rank number enters, so the stream is the same on every grid.
/// With data.document_mask, document_start is set at each document, positions restart there (with
/// data.reset_positions), and nothing is predicted after an end-of-document token. A sample that
/// starts inside a document counts positions from its own start.
/// Thread-safe after construction and continue_from.
/// Errors    DataError for bad files, for too few tokens, or ids that the model does not have;
///           DeckError for weights of sources that are not there
class BatchSource {
 public:
  BatchSource(const Config& config, Stream stream);
  /// From sources that are open already. config.data.train and validation are not looked at.
  BatchSource(const Config& config, Stream stream, OpenTokens tokens);
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  /// Fills `out` with micro-batch `micro_batch` (0 .. micro_batches() - 1) of the global batch of
  /// `step`. Vectors in `out` are reused.
  /// Errors    DataError if a token in the file is damaged; Internal if an index is out of range
  void fill(int64_t step, int64_t micro_batch, MicroBatch& out) const;

  /// Step `step` begins with the first kept position from `position` on, and the following ones go
  /// on behind it: resuming at another global_batch_size goes on with the same stream. `state` is
  /// what mixture_at(step) was; empty if nothing was mixed. Before any thread fills.
  void continue_from(int64_t step, int64_t position, const MixtureState& state = {});
  /// The (raw) position with which a step begins.
  int64_t position_of(int64_t step) const { return position_of(step, 0); }
  /// The state of the mixture when a step begins: for the checkpoint. Empty if nothing is mixed.
  MixtureState mixture_at(int64_t step) const;
  /// Ranges of positions that this step jumped over, by data.skip.
  std::vector<IntegerRange> skipped_in(int64_t step) const;

  int64_t micro_batches() const { return global_batch_size_ / micro_batch_size_; }  ///< a step
  int64_t batches() const { return batches_; }  ///< global batches there are; training: endless
  int64_t windows() const { return stream_->samples(); }  ///< samples of all sources
  int64_t tokens() const { return stream_->tokens(); }    ///< TokenWindows::kEndless if random
  double epochs(int64_t steps) const;  ///< passes over all the data after so many steps
  std::vector<SourceUse> sources(int64_t step) const;  ///< as they stand when a step begins
  /// A line for each source that `steps` steps would show more than 4 times, and one for each that
  /// they would show more than once: for a warning, and to be known.
  /// Source    Muennighoff et al. 2023, "Scaling data-constrained language models",
  ///           arXiv:2305.16264: up to 4 epochs of the same text are about as good as new text
  std::vector<std::string> repeat_warnings(int64_t steps) const;
  std::vector<std::string> repeat_notes(int64_t steps) const;
  PackingCounts packing() const;  ///< of all sources; zeros unless data.packing = best_fit
  const std::string& tokenizer() const { return tokenizer_; }  ///< name; empty if not known
  const std::string& tokenizer_folder() const { return tokenizer_folder_; }  ///< of a store, or ""
  int32_t end_of_document() const { return end_of_document_; }               ///< id; -1: none

 private:
  std::unique_ptr<SampleStream> make_stream(const Config& config, Stream stream, OpenTokens tokens);
  void spread_validation(const Config& config);
  int64_t position_of(int64_t step, int64_t sequence) const;
  SampleStream::Place place_of(int64_t position) const;
  std::vector<int64_t> deal(int64_t step) const;
  void fill_sequence(int64_t position, int64_t row, Sample& sample, MicroBatch& out) const;
  std::vector<std::string> repeats(int64_t steps, double above, double up_to) const;

  int64_t seq_length_, micro_batch_size_, global_batch_size_;
  int64_t first_step_ = 0, first_position_ = 0;
  int64_t batches_ = TokenWindows::kEndless;
  int64_t spread_ = 0;  // validation from files: the samples that are looked at
  bool document_mask_, reset_positions_;
  KeptPositions kept_;
  std::unique_ptr<SampleStream> stream_;
  std::unique_ptr<StepDeals> deals_;  // data.balance only
  std::string tokenizer_, tokenizer_folder_;
  int32_t end_of_document_ = -1;
};

}  // namespace espalier
