// SPDX-License-Identifier: Apache-2.0
// Building token files from text.
#include "corpus/corpus_builder.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>

#include "core/error.hpp"
#include "corpus/document_reader.hpp"
#include "corpus/hash.hpp"
#include "corpus/token_file_writer.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 15;  // encoded at once: in cache, whatever the document
constexpr const char* kPartNames[] = {"train", "validation"};

struct Part {
  std::unique_ptr<TokenFileWriter> writer;
  int64_t text_bytes = 0;
};

void check_request(const BuildRequest& request) {
  if (request.files.empty()) {
    throw DeckError("corpus build: no text files were named; name at least one");
  }
  if (request.prefix.empty()) {
    throw DeckError("corpus build: --out is empty; give the beginning of the outputs' names");
  }
  if (!(request.held_out >= 0.0 && request.held_out < 1.0)) {
    throw DeckError(
        fmt::format("corpus build: --held-out {} is outside [0, 1); try 0.05", request.held_out));
  }
  if (request.document_bytes != 0 &&
      request.document_bytes < DocumentReader::kSmallestDocumentBytes) {
    throw DeckError(
        fmt::format("corpus build: --document-bytes {} is below {}; try 4096, or 0 to "
                    "make each file one document",
                    request.document_bytes, DocumentReader::kSmallestDocumentBytes));
  }
}

void make_folder(const std::string& prefix) {
  const auto folder = std::filesystem::path(train_path(prefix)).parent_path();
  if (folder.empty()) return;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) {
    throw DataError(fmt::format("{}: this folder cannot be made: {}; choose another --out",
                                folder.string(), code.message()));
  }
}

// A second run of `build --out corpus/x corpus/*` would otherwise eat its own output.
void refuse_token_file(std::string_view text, const std::string& path) {
  const std::string_view magic(reinterpret_cast<const char*>(kTokenMagic.data()),
                               kTokenMagic.size());
  if (text.substr(0, magic.size()) == magic) {
    throw DataError(fmt::format("{}: is a token file, not text; leave it out", path));
  }
}

class Builder {
 public:
  Builder(const BuildRequest& request, const Tokenizer& tokenizer)
      : request_(request), tokenizer_(tokenizer) {
    parts_.resize(request.held_out > 0.0 ? 2 : 1);
    parts_[0].writer = std::make_unique<TokenFileWriter>(train_path(request.prefix), tokenizer);
    if (parts_.size() == 2) {
      parts_[1].writer =
          std::make_unique<TokenFileWriter>(validation_path(request.prefix), tokenizer);
    }
  }

  InputReport add_file(const std::string& path) {
    InputReport report;
    report.path = path;
    DocumentReader reader(path, request_.document_bytes);
    report.gzip = reader.is_gzip();
    std::string_view document;
    while (reader.next(document)) {
      if (report.documents == 0) refuse_token_file(document, path);
      add_document(document, report);
    }
    return report;
  }

  std::vector<OutputReport> publish() {
    std::vector<OutputReport> reports;
    for (size_t i = 0; i < parts_.size(); ++i) {
      TokenFileWriter& writer = *parts_[i].writer;
      if (writer.header().documents == 0) {
        throw DataError(fmt::format(
            "{}: no document fell to {} (--held-out {}), and nothing was written; give more "
            "documents (--document-bytes cuts files into smaller ones) or another fraction",
            writer.path(), kPartNames[i], request_.held_out));
      }
      writer.finish();
      reports.push_back(
          {writer.path(), writer.header().documents, writer.header().tokens, parts_[i].text_bytes});
    }
    for (Part& part : parts_) part.writer->publish();
    return reports;
  }

 private:
  void add_document(std::string_view document, InputReport& report) {
    const bool held_out = is_held_out(document, request_.held_out, request_.seed);
    Part& part = parts_[held_out ? 1 : 0];
    const auto bytes = static_cast<int64_t>(document.size());
    part.text_bytes += bytes;
    report.bytes += bytes;
    report.documents += 1;
    report.held_out_documents += held_out ? 1 : 0;
    report.broken_utf8 += count_broken_utf8(document);
    for (std::string_view rest = document; !rest.empty();) {
      const std::string_view piece = rest.substr(0, tokenizer_.piece_end(rest, kPieceBytes));
      rest.remove_prefix(piece.size());
      tokens_.clear();
      tokenizer_.append_tokens(piece, tokens_);
      if (rest.empty()) tokens_.push_back(tokenizer_.end_of_document());
      part.writer->append(tokens_.data(), static_cast<int64_t>(tokens_.size()));
      report.tokens += static_cast<int64_t>(tokens_.size());
    }
  }

  const BuildRequest& request_;
  const Tokenizer& tokenizer_;
  std::vector<Part> parts_;  // train, validation
  std::vector<int32_t> tokens_;
};

}  // namespace

std::string train_path(const std::string& prefix) {
  return prefix + ".train.tok";
}
std::string validation_path(const std::string& prefix) {
  return prefix + ".validation.tok";
}

bool is_held_out(std::string_view document, double fraction, uint64_t seed) {
  if (fraction <= 0.0) return false;
  const uint64_t hash = hash_bytes(document.data(), document.size(), seed);
  return static_cast<double>(hash >> 11) * 0x1.0p-53 < fraction;
}

BuildReport build_corpus(const BuildRequest& request, const Tokenizer& tokenizer) {
  check_request(request);
  const auto begin = std::chrono::steady_clock::now();
  make_folder(request.prefix);
  Builder builder(request, tokenizer);
  BuildReport report;
  for (const std::string& path : request.files) report.inputs.push_back(builder.add_file(path));
  report.outputs = builder.publish();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace espalier
