// SPDX-License-Identifier: Apache-2.0
// Reading and verifying a store as a whole: its shards, its documents, its summary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "corpus/store/shard.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {

/// Opens the shard of a record and holds it against the manifest: counts, tokenizer, vocabulary,
/// end of document. VerifyData::full reads both files once and compares their checksums.
/// Errors    DataError naming the file
std::unique_ptr<const Shard> open_store_shard(const std::string& store,
                                              const StoreManifest& manifest,
                                              const ShardRecord& record, VerifyData verify);

/// What verify_shard has looked at.
struct ShardCheck {
  StoreCounts counts;
  int64_t texts = 0;  // documents whose text was compared; 0 without a lossless tokenizer
};

/// Everything that can be said of a shard: checksums and counts, ids below the vocabulary, one end
/// token in each document and at its end; and with `lossless` (a tokenizer whose decoded text is
/// the text that was encoded; else null) the hash and length of each document's text, and that
/// is_held_out() puts the document into the shard's stream.
/// Memory    a document
/// Errors    DataError naming file and document
ShardCheck verify_shard(const std::string& store, const StoreManifest& manifest,
                        const ShardRecord& record, const Tokenizer* lossless);

/// Where document `number` of a store is.
struct DocumentPlace {
  int64_t shard = 0;     // in manifest.shards
  int64_t document = 0;  // in the shard
};

/// Documents are counted from 0: those of the train shards in the manifest's order, then those of
/// the validation shards.
/// Errors    DataError if there are not so many
DocumentPlace locate_document(const StoreManifest& manifest, int64_t number,
                              const std::string& store);

/// One document with what the store knows of it.
struct StoreDocument {
  DocumentPlace place;
  uint64_t hash = 0;
  int64_t text_bytes = 0;
  std::vector<int32_t> tokens;  // without the end-of-document token
};

/// Reads document `number`; constant time but for the list of shards.
StoreDocument read_document(const std::string& store, const StoreManifest& manifest,
                            int64_t number);

/// Tokens of document `i` of an array with an index, its last token left out if that is the
/// end-of-document token.
std::vector<int32_t> document_tokens(const TokenArray& array, int64_t i);

/// A table for people: tokenizer, held-out share, and documents, tokens and bytes of text by
/// source, language and stream. Ends with a line feed.
std::string describe_store(const StoreManifest& manifest);

}  // namespace espalier
