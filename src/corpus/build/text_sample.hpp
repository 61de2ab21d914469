// SPDX-License-Identifier: Apache-2.0
// A sample of the cleaned text of a corpus, for what learns from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "deck/corpus_config.hpp"

namespace espalier {

struct SampleSize {
  int64_t documents = 0, bytes = 0;
};

/// Draws about config.train_tokenizer.sample_mib of cleaned text from all sources, each by its
/// weight (or all of it, where it has less), in small parts from keyed places of its files: the
/// same documents for the same deck and files. Held-out documents are left out.
///
/// `take` is given one document after another. Errors  DataError as the readers
SampleSize draw_sample(const CorpusConfig& config, const std::function<void(std::string&&)>& take);

}  // namespace espalier
