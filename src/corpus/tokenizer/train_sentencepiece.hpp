// SPDX-License-Identifier: Apache-2.0
// Training a sentencepiece model on a sample of documents.
#pragma once

#include <functional>
#include <string>

#include "deck/corpus_config.hpp"

namespace espalier {

/// Trains on the documents that `next` gives until it returns false, and returns the bytes of the
/// model. The model loses nothing: no normalisation, no blank put in front, blanks and line feeds
/// kept, bytes where it has no piece; so decode(encode(x)) = x. Deterministic with one thread.
/// Errors    DataError if the sample is too small for vocab_size, with the largest possible one
std::string train_sentencepiece(const TrainTokenizerConfig& config,
                                const std::function<bool(std::string&)>& next);

}  // namespace espalier
