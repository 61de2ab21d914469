// SPDX-License-Identifier: Apache-2.0
// Training never reads held-out text: checked by document, and by place.
#pragma once

#include <string>

#include "corpus/store/token_array.hpp"

namespace espalier {

/// Requires that no document of the validation shards is among the training shards, by the hashes
/// in their indexes (all of them are read: 24 bytes a document). Between files without hashes,
/// equal checksums, or the same file on both sides, are warned of.
/// Memory    9 bytes for each held-out document
/// Errors    DataError naming shard and document on both sides
void require_disjoint(const OpenTokens& train, const OpenTokens& validation);

/// Requires that a token file does not hold held-out text, as far as its place tells: the shards of
/// a store's validation stream, and PREFIX.validation.tok beside a PREFIX.train.tok.
/// Errors    DataError, "held-out text must not be trained on"
void require_not_held_out(const std::string& path);

}  // namespace espalier
