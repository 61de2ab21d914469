// SPDX-License-Identifier: Apache-2.0
// What the readers of all formats share: the bytes of a part, and what is wrong with them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "corpus/source/document_stream.hpp"
#include "corpus/source/input_faults.hpp"
#include "corpus/source/input_list.hpp"
#include "corpus/source/text_reader.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

enum class Utf8 { unknown, valid };

/// Takes the faults of one part: notes them, and throws where the deck calls them fatal.
/// Lines are given as counted from `first_byte` of the file, 1-based. The lines before it are
/// counted only when a place is shown.
class PartFaults {
 public:
  PartFaults(const FaultConfig& config, InputFaults& noted, std::string path);
  /// For a part that is read from the inside of a plain file.
  void set_first_byte(int64_t byte) { first_byte_ = byte; }

  /// `line` 0: the file as a whole. `what` is one line of any bytes.
  /// Errors    DataError with file and line if such a fault is fatal
  void report(FaultKind kind, int64_t line, const std::string& what);
  void report_long(int64_t line, int64_t most_bytes);

  /// Looks at a document that is about to be handed out and begins in this line; mends it if the
  /// deck says so. False if it is to be left out.
  bool settle(std::string& text, int64_t line, Utf8 known = Utf8::unknown);
  /// The same for sequences of which something else was made already; true: to be used.
  bool settle_broken(int64_t count, int64_t line, const std::string& what);

  /// The line for Document::line: 0 where it is not known.
  int64_t known_line(int64_t line) const { return first_byte_ == 0 ? line : 0; }

 private:
  int64_t lines_before();

  const FaultConfig& config_;
  InputFaults& noted_;
  std::string path_;
  int64_t first_byte_ = 0;
  int64_t lines_before_ = -1;  // not counted yet
};

/// The bytes of a file from one byte on. Damage looks like the end: the reader asks for it there.
/// Errors    DataError as TextReader, and for a file that changed since it was listed
class PartInput {
 public:
  PartInput(const InputFile& file, int64_t first_byte, int64_t end = INT64_MAX);
  size_t read(char* out, size_t capacity);
  bool is_damaged() const { return damage_ != nullptr; }
  /// What is wrong, and what it costs: "...; the 17 bytes of the unfinished line are left out".
  std::string damage(int64_t lost_bytes, const char* unit) const;
  int64_t disk_position() const { return reader_.disk_position(); }

 private:
  TextReader reader_;
  std::unique_ptr<DamagedFile> damage_;
};

/// The documents of one part of a file. One subclass a format.
class PartReader {
 public:
  virtual ~PartReader() = default;
  /// The next document; false at the end. Sets text and line.
  virtual bool next(Document& out) = 0;
  virtual int64_t disk_position() const = 0;
};

/// One part to be read. The references outlive the reader.
struct PartRequest {
  const SourceConfig& source;
  const InputFile& file;
  InputPart part;
  int64_t longest_document_bytes;
  PartFaults& faults;
};

std::unique_ptr<PartReader> read_text_part(const PartRequest& request);
std::unique_ptr<PartReader> read_jsonl_part(const PartRequest& request);
std::unique_ptr<PartReader> read_html_part(const PartRequest& request);

/// Where a part ends, in bytes of text: nowhere for the last part of a file, nor a compressed one.
int64_t part_end(const PartRequest& request);

/// Reads a whole file into `text`. False if there is no document in it: the fault is reported.
bool read_whole_file(const PartRequest& request, PartInput& input, std::string& text);

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace espalier
