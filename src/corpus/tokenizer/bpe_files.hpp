// SPDX-License-Identifier: Apache-2.0
// The files of BPE tokenizers: GPT-2's pair and tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "corpus/tokenizer/bpe_tokenizer.hpp"

namespace espalier {

/// GPT-2: `vocab` is the text of vocab.json (encoder.json), `merges` that of merges.txt
/// (vocab.bpe).
/// <|endoftext|> is a special token if it is there.
/// Errors    DataError, begun with `where`, for what is not understood
BpeDescription describe_gpt2(const std::string& vocab, const std::string& merges,
                             const std::string& where);

/// A tokenizer.json. Understood are:
///   model           BPE, with all its settings but dropout
///   normalizer      NFC NFD NFKC NFKD Lowercase StripAccents Strip Prepend Replace ByteLevel
///                   Sequence
///   pre_tokenizer   ByteLevel Split Digits Whitespace WhitespaceSplit Punctuation Metaspace
///                   Sequence
///   added_tokens    with all their settings
///   decoder         ByteLevel Metaspace Replace (of strings) ByteFallback Fuse Strip (at the
///                   beginning) BPEDecoder Sequence; none: tokens stand for their own text
/// post_processor, truncation and padding are not applied: the corpus puts its own end of document,
/// and cuts nothing.
/// Errors    DataError, begun with `where`, for all else, by name
BpeDescription describe_tokenizer_json(const std::string& text, const std::string& where);

/// Parts of the above.
std::vector<NormalizerStep> read_normalizer(const nlohmann::json& value, const std::string& where);
/// `symbols` becomes bytes if a ByteLevel step stands last, which then is left out.
std::vector<PreTokenizerStep> read_pre_tokenizer(const nlohmann::json& value,
                                                 const std::string& where, Symbols& symbols);
DecodeRules read_decoder(const nlohmann::json& value, const std::string& where);

}  // namespace espalier
