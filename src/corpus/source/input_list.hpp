// SPDX-License-Identifier: Apache-2.0
// Which files a source has, and how they are cut into pieces of work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus/source/decompressor.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

struct InputFile {
  std::string path;
  int64_t bytes = 0;  // on the disk
  Compression compression = Compression::none;
  SourceFormat format = SourceFormat::text;  // never automatic
};

/// Bytes [begin, end) of a file as it is on the disk: the documents that start there. Compressed
/// files and those that are one document are whole.
struct InputPart {
  int64_t file = 0;  // index in the list of the source's files
  int64_t begin = 0, end = 0;
};

/// One unit of work and one shard of the store: parts of one source in their order. A function of
/// the deck and the files alone, never of the number of ranks.
struct InputPiece {
  int64_t source = 0;
  std::vector<InputPart> parts;
  int64_t bytes = 0;  // on the disk, for progress and for the balance between ranks
};

/// The files of a source, each once, in the order of its paths; what a folder or glob gives is
/// sorted by bytes. Compression is known by the first bytes, an automatic format by the name
/// (.jsonl .ndjson .json, .html .htm, before .gz .zst; else text).
/// Errors    DataError for a path that does not exist or may not be read, a glob without a match,
///           a token file or store among them
std::vector<InputFile> list_inputs(const SourceConfig& source);

/// Cuts the files of source number `index` into pieces of about `piece_bytes`.
std::vector<InputPiece> cut_pieces(const SourceConfig& source, int64_t index,
                                   const std::vector<InputFile>& files, int64_t piece_bytes);

}  // namespace espalier
