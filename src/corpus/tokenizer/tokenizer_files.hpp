// SPDX-License-Identifier: Apache-2.0
// Tokenizers from what a deck names, and from the copy that a store or a run keeps.
#pragma once

#include <memory>
#include <string>

#include "corpus/tokenizer.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

/// The tokenizer that [tokenizer] asks for.
/// Errors    DeckError, DataError naming the file and what in it is not understood
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config);

/// Writes the files that define a tokenizer into `folder` (made if it is missing), each durably:
/// the originals' bytes under fixed names, and settings.json. The same bytes every time.
void save_tokenizer(const Tokenizer& tokenizer, const std::string& folder);

/// Reads what save_tokenizer wrote; the name of the tokenizer must come out as `name` unless empty.
/// Errors    DataError for missing, damaged or unlike files
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& folder, const std::string& name);

}  // namespace espalier
