// SPDX-License-Identifier: Apache-2.0
// Token files of other programs, read as they are: nanoGPT, llm.c and Megatron-LM.
#pragma once

#include <memory>
#include <string>

#include "corpus/store/token_array.hpp"
#include "deck/config.hpp"

namespace espalier {

/// What such a file does not say and the deck does.
struct ForeignRules {
  int64_t vocab_size = 0;                // of the model: ids are below it; 0: any that int32 holds
  int32_t end_of_document = -1;          // its id; -1: not known
  VerifyData verify = VerifyData::full;  // full: every id is looked at once
};

enum class FileKind { token_file, shard_index, nanogpt, llmc, llmc_evaluation, megatron, unknown };

/// What a regular file is: by its first bytes where the format marks them. A .bin beside a Megatron
/// index of its name belongs to that; one without any mark is taken for nanoGPT's.
/// Errors    DataError if it cannot be opened
FileKind find_kind(const std::string& path);

/// Ids of 2 bytes and nothing else, as nanoGPT's data/*/prepare.py writes them.
/// Errors    DataError for a size that is no multiple of 2, ids out of range
std::unique_ptr<const TokenArray> open_nanogpt(const std::string& path, const ForeignRules& rules);

/// 256 int32 of header and ids of 2 (GPT-2) or 4 bytes (Llama 3), as llm.c's
/// dev/data/data_common.py writes them.
/// Errors    DataError for another version, a size that is not that of the header's count, ids
std::unique_ptr<const TokenArray> open_llmc(const std::string& path, const ForeignRules& rules);

/// PREFIX.bin and PREFIX.idx of Megatron-LM (core/datasets/indexed_dataset.py); `path` is the
/// prefix or either file. Sequences must follow each other in the .bin without gap, as Megatron's
/// own writer puts them; others are refused, with VerifyData::header where they are met.
/// Where rules.end_of_document is an id, documents must end with it (header: the first and last).
/// Errors    DataError for missing, unlike, damaged, multimodal or floating-point files, ids
std::unique_ptr<const TokenArray> open_megatron(const std::string& path, const ForeignRules& rules);

/// PREFIX of PREFIX, PREFIX.idx or PREFIX.bin.
std::string megatron_prefix(const std::string& path);

}  // namespace espalier
