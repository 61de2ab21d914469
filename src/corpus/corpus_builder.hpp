// SPDX-License-Identifier: Apache-2.0
// Text files to token files: cut into documents, held out by content, tokenised, written whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/tokenizer.hpp"

namespace espalier {

struct BuildRequest {
  std::string prefix;              // outputs are prefix.train.tok and prefix.validation.tok
  std::vector<std::string> files;  // text, plain or gzip
  double held_out = 0.0;           // share of the documents for validation, in [0, 1)
  int64_t document_bytes = 0;      // cut files into documents of at most so many; 0: a file is one
  uint64_t seed = 1;               // of the held-out choice
};

/// What was found in one input file.
struct InputReport {
  std::string path;
  bool gzip = false;
  int64_t bytes = 0;  // of text, uncompressed
  int64_t documents = 0;
  int64_t held_out_documents = 0;
  int64_t tokens = 0;
  int64_t broken_utf8 = 0;  // sequences that are no character; kept as they are
};

struct OutputReport {
  std::string path;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;
};

struct BuildReport {
  std::vector<InputReport> inputs;    // in the order of the request
  std::vector<OutputReport> outputs;  // train, then validation if there is one
  double seconds = 0.0;               // wall time, flushing to the disk included
};

/// Is a document held out? By its content alone, never by its place or its file's name, so that
/// the same document is always on the same side.
bool is_held_out(std::string_view document, double fraction, uint64_t seed);

/// Builds the token files. Existing ones are replaced, by rename, once all are whole; on any error
/// nothing changes. Memory is that of a document, whatever the number and size of the files.
/// Errors    DeckError for a fraction or document size out of range, or no files;
///           DataError for bad inputs, outputs that cannot be written, or a side without documents
BuildReport build_corpus(const BuildRequest& request, const Tokenizer& tokenizer);

std::string train_path(const std::string& prefix);
std::string validation_path(const std::string& prefix);

}  // namespace espalier
