// SPDX-License-Identifier: Apache-2.0
// What a model must beat: the held-out cross-entropy of a token-unigram and a token-bigram model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

/// Which predictions of the held-out text are scored. Always inside documents: the first token of
/// a document is not predicted, its end-of-document token is. As the trainer with
/// data.document_mask.
struct BaselineRequest {
  std::vector<std::string> train;
  std::vector<std::string> validation;
  /// Of a run: what its validation loss is taken over, in place of all of `validation`.
  std::optional<Config> run = std::nullopt;
};

struct BaselineScore {
  double nats_per_token = 0.0;  // mean over the scored predictions
  double bits_per_byte = 0.0;  // all their bits, by the bytes of text that the predicted tokens are
  double concentration = 0.0;  // of the smoothing, chosen on training text
};

struct BaselineReport {
  BaselineScore unigram, bigram;
  int64_t train_predictions = 0;   // counted to make the models
  int64_t scored_predictions = 0;  // held-out
  int64_t scored_bytes = 0;        // of text, in the predicted tokens
  int64_t vocab_size = 0;
  std::string tokenizer;
};

/// Counts on the training files, scores on the validation files.
///
/// Both models shrink towards a simpler one with a concentration k (Dirichlet prior):
///   unigram  P(b)   = (n(b)    + k0 / V)    / (N    + k0)
///   bigram   P(b|a) = (n(a, b) + k1 * P(b)) / (n(a) + k1)
/// k0 and k1 maximise the leave-one-out likelihood of the training text alone: each prediction is
/// scored with its own count taken away.
/// Memory    V^2 counts up to V = 2048, else one entry per pair that occurs
/// Errors    DataError for bad files, different tokenizers, or nothing to count or score;
/// Source    MacKay & Bauman Peto 1995, "A hierarchical Dirichlet language model", section 4
BaselineReport score_baseline(const BaselineRequest& request);

}  // namespace espalier
