// SPDX-License-Identifier: Apache-2.0
// Faults with their places, and whole files.
#include "corpus/source/part_input.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

struct Remedy {
  bool is_fatal;
  const char* text;
};

Remedy find_remedy(FaultKind kind, const FaultConfig& config) {
  switch (kind) {
    case FaultKind::broken_utf8:
      return {config.broken_utf8 == OnBrokenText::fatal,
              "mend the text, or set faults.broken_utf8 = \"replace\" or \"skip\""};
    case FaultKind::bad_json:
      return {config.bad_line == OnFault::fatal,
              "mend the line, or set faults.bad_line = \"skip\""};
    case FaultKind::missing_field:
      return {config.bad_line == OnFault::fatal,
              "check source.field, or set faults.bad_line = \"skip\""};
    case FaultKind::long_document:
      return {config.long_document == OnFault::fatal,
              "raise build.longest_document_mib, or set faults.long_document = \"skip\""};
    case FaultKind::damaged_file:
      return {config.damaged_file == OnFault::fatal,
              "copy or make it again, or set faults.damaged_file = \"skip\" to use what comes "
              "before the damage"};
    default: return {false, ""};
  }
}

int64_t count_lines(const std::string& path, int64_t bytes) {
  TextReader reader(path, 0, bytes);
  std::string block(kReadBytes, '\0');
  int64_t lines = 0;
  while (const size_t got = reader.read(block.data(), block.size())) {
    lines += std::count(block.data(), block.data() + got, '\n');
  }
  return lines;
}

bool is_blank(std::string_view text) {
  if (!text.empty() && static_cast<unsigned char>(text[0]) > ' ') return false;
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

}  // namespace

PartFaults::PartFaults(const FaultConfig& config, InputFaults& noted, std::string path)
    : config_(config), noted_(noted), path_(std::move(path)) {}

int64_t PartFaults::lines_before() {
  if (lines_before_ < 0) lines_before_ = first_byte_ == 0 ? 0 : count_lines(path_, first_byte_);
  return lines_before_;
}

void PartFaults::report(FaultKind kind, int64_t line, const std::string& what) {
  const Remedy remedy = find_remedy(kind, config_);
  FaultPlace place;
  if (remedy.is_fatal || noted_.wants_place(kind)) {
    place.path = printable_text(path_);
    place.line = line == 0 ? 0 : line + lines_before();
    place.what = printable_text(what);
  }
  noted_.note(kind, place);
  if (!remedy.is_fatal) return;
  const std::string where =
      place.line == 0 ? place.path : fmt::format("{}:{}", place.path, place.line);
  throw DataError(fmt::format("{}: {}: {}; {}", where, fault_name(kind), place.what, remedy.text));
}

void PartFaults::report_long(int64_t line, int64_t most_bytes) {
  report(FaultKind::long_document, line,
         fmt::format("has more than {} bytes, the limit for a line or document", most_bytes));
}

bool PartFaults::settle_broken(int64_t count, int64_t line, const std::string& what) {
  report(FaultKind::broken_utf8, line,
         fmt::format("{} broken sequence{}, {}", count, count == 1 ? "" : "s", what));
  return config_.broken_utf8 != OnBrokenText::skip;
}

bool PartFaults::settle(std::string& text, int64_t line, Utf8 known) {
  if (is_blank(text)) {
    report(FaultKind::empty_document, line, text.empty() ? "is empty" : "has nothing but blanks");
    return false;
  }
  if (known == Utf8::valid) return true;
  const size_t broken = find_broken_utf8(text);
  if (broken == std::string::npos) return true;
  const auto at = text.begin() + static_cast<std::ptrdiff_t>(broken);
  const int64_t broken_line = line + std::count(text.begin(), at, '\n');
  const std::string what =
      fmt::format("the first with 0x{:02X} at byte {} of the document",
                  static_cast<unsigned>(static_cast<unsigned char>(text[broken])), broken);
  if (!settle_broken(count_broken_utf8(text), broken_line, what)) return false;
  if (config_.broken_utf8 == OnBrokenText::replace) text = printable_text(text);
  return true;
}

PartInput::PartInput(const InputFile& file, int64_t first_byte, int64_t end)
    : reader_(file.path, first_byte, end) {
  if (reader_.disk_bytes() != file.bytes || reader_.compression() != file.compression) {
    throw DataError(
        fmt::format("{}: has changed since it was listed ({} bytes then, {} now); "
                    "leave the inputs alone while they are read, and build again (--overwrite "
                    "drops what is there of the build)",
                    file.path, file.bytes, reader_.disk_bytes()));
  }
}

size_t PartInput::read(char* out, size_t capacity) {
  if (damage_ != nullptr) return 0;
  try {
    return reader_.read(out, capacity);
  } catch (const DamagedFile& damage) {
    damage_ = std::make_unique<DamagedFile>(damage);
    return 0;
  }
}

std::string PartInput::damage(int64_t lost_bytes, const char* unit) const {
  ESPALIER_REQUIRE(damage_ != nullptr, "no damage");
  if (lost_bytes == 0) return damage_->what_is_wrong;
  return fmt::format("{}; the unfinished {} before it, {} bytes, is left out",
                     damage_->what_is_wrong, unit, lost_bytes);
}

int64_t part_end(const PartRequest& request) {
  const bool to_the_end =
      request.file.compression != Compression::none || request.part.end >= request.file.bytes;
  return to_the_end ? INT64_MAX : request.part.end;
}

bool read_whole_file(const PartRequest& request, PartInput& input, std::string& text) {
  text.clear();
  size_t size = 0;
  const auto most = static_cast<size_t>(request.longest_document_bytes);
  for (;;) {
    if (text.size() - size < kReadBytes) text.resize(size + std::max(size / 2, 2 * kReadBytes));
    const size_t got = input.read(text.data() + size, text.size() - size);
    size += got;
    if (got == 0 || size > most) break;
  }
  text.resize(size);
  if (size > most) {
    request.faults.report_long(1, request.longest_document_bytes);
  } else if (input.is_damaged()) {
    // A part of a document must not pass for the whole.
    request.faults.report(FaultKind::damaged_file, 1 + std::count(text.begin(), text.end(), '\n'),
                          input.damage(static_cast<int64_t>(text.size()), "document"));
  } else if (size == 0) {
    request.faults.report(FaultKind::empty_file, 0, "has no text");
  } else {
    return true;
  }
  return false;
}

}  // namespace espalier
