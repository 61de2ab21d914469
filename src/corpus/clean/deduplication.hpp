// SPDX-License-Identifier: Apache-2.0
// Exact and near duplicates over the whole corpus, through files of sorted keys, so that memory
// does not grow with the corpus and the outcome does not depend on who does what.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deck/corpus_config.hpp"

namespace espalier {

/// A document of the whole corpus: `piece` in the order of the build, `index` among the documents
/// that the piece kept. The first of several duplicates stays.
struct DocumentId {
  int64_t piece = 0, index = 0;
};
inline bool operator==(const DocumentId& a, const DocumentId& b) {
  return a.piece == b.piece && a.index == b.index;
}
inline bool operator<(const DocumentId& a, const DocumentId& b) {
  return a.piece != b.piece ? a.piece < b.piece : a.index < b.index;
}

/// Collects the keys of one piece's documents, in their order, and writes them to `path`, sorted
/// (format: key_file.hpp). config.deduplicate must not be none. Signatures go to PATH.part as they
/// come; a record of 24 bytes, with near also one of 16 a band (18 at 0.8), stays in memory.
/// Errors    DeckError for a similarity that cannot be reached; DataError from writing
class KeyWriter {
 public:
  KeyWriter(const CleanConfig& config, std::string path);
  ~KeyWriter();
  KeyWriter(const KeyWriter&) = delete;
  KeyWriter& operator=(const KeyWriter&) = delete;
  void add(std::string_view document);  ///< the next document
  void finish();                        ///< writes aside, flushes, renames
 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Number of ranges of keys that find_duplicates is to be asked about, so that each fits in about
/// `memory_bytes`: a function of the key files alone. Documents with one and the same key cannot be
/// parted, so a key that very many share takes what it needs (24 to 72 bytes a document).
/// Errors    DataError for missing or damaged key files
int64_t count_key_ranges(const std::vector<std::string>& key_files, int64_t memory_bytes);

struct DuplicatePair {
  DocumentId first, later;  // first < later
  bool is_exact = true;
};
inline bool operator==(const DuplicatePair& a, const DuplicatePair& b) {
  return a.first == b.first && a.later == b.later && a.is_exact == b.is_exact;
}
/// By first, then later, exact ones ahead.
bool operator<(const DuplicatePair& a, const DuplicatePair& b);

/// Most documents of one band that others in it are compared with; see find_duplicates.
constexpr int64_t kMostCompared = 32;

/// The duplicates that show in key range `range` of `ranges`: pairs of documents that are the same
/// (exact) or whose estimated similarity reaches config.similarity (near). `key_files` stand in
/// the order of the pieces; an empty name is a piece without documents. Sorted, each pair once.
///
/// Exact: equal XXH3-128 of the text; each later document is paired with the first.
/// Near: documents that share a band (min_hash.hpp) are compared by signature, each with the first
/// kMostCompared of different signatures, so that work grows linearly with a band that very many
/// share; what stands beyond those in such a band is found only through other bands. Of a group the
/// pairs that join it are named, not all. A group lies in one range whole, so all ranges together
/// give the same pairs however many they are (a pair may come from several).
/// Each range checks what it reads and its share of the signatures; all ranges together check every
/// byte of every file.
/// Errors    DataError for missing or damaged key files and for those made with other settings
std::vector<DuplicatePair> find_duplicates(const CleanConfig& config,
                                           const std::vector<std::string>& key_files, int64_t range,
                                           int64_t ranges);

struct DroppedDocument {
  DocumentId id;
  bool is_exact = true;  // equal to one that is kept or dropped, else near one
};

/// Joins pairs into groups and keeps the first document of each: all the others, in order.
std::vector<DroppedDocument> choose_dropped(const std::vector<DuplicatePair>& pairs);

}  // namespace espalier
