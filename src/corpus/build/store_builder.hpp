// SPDX-License-Identifier: Apache-2.0
// From a corpus deck to a token store, by a team of any size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "corpus/build/team.hpp"
#include "corpus/store/store_manifest.hpp"
#include "corpus/tokenizer.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

enum class BuildPhase { read, find_duplicates, drop_duplicates };

struct BuildProgress {
  BuildPhase phase = BuildPhase::read;
  int64_t done = 0, total = 0;  // input bytes on the disk when reading, else units of work
  int64_t text_bytes = 0;       // read so far by this run
  double seconds = 0.0;         // of this run
};

struct BuildRequest {
  CorpusConfig config;
  bool may_replace = false;  // a store, or an unfinished build of something else
  std::function<void(const BuildProgress&)> progress;  // called on member 0; may be empty
};

struct BuildReport {
  StoreManifest manifest;
  int64_t pieces = 0, pieces_found = 0;  // found: of an earlier run that did not come to its end
  int64_t text_bytes = 0;                // read by this run, on all members
  double seconds = 0.0;                  // wall time, flushing to the disk included
};

/// Builds the store config.build.output. All is written into OUTPUT.building, which becomes the
/// store by one rename when it is whole; what OUTPUT was before stays until then. A build that was
/// interrupted goes on behind its finished pieces, with any size of the team. The store's bytes
/// depend on the deck and the inputs alone.
///
/// Memory of a member is that of a document and buffers. With deduplication it is also that of the
/// keys of one piece, 24 bytes a document and with near up to 312 at a similarity of 0.8 (24 and 16
/// for each of its 18 bands; see KeyWriter), so that a piece of 256 MiB in documents of 1 KiB takes
/// 82 MB; of one range of keys (256 MiB); and of the duplicates found.
/// All members must see the same files, which nobody may change while they are read.
/// Errors  DeckError, DataError; LaunchError if OUTPUT is there already, if another build is at it,
///         or if OUTPUT.building is of another build
BuildReport build_store(const BuildRequest& request, const Tokenizer& tokenizer, Team& team);

}  // namespace espalier
