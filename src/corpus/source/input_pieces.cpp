// SPDX-License-Identifier: Apache-2.0
// Files cut and grouped into pieces of work of about one size.
#include <algorithm>

#include "core/error.hpp"
#include "corpus/source/input_list.hpp"

namespace espalier {
namespace {

// A part of a file smaller than this share of a piece is not cut off.
constexpr int64_t kSmallestShare = 16;

// May the inside of the file be cut? The documents of the parts are then those of the file.
bool is_divisible(const SourceConfig& source, const InputFile& file) {
  if (file.compression != Compression::none) return false;
  if (file.format == SourceFormat::text) return source.documents != DocumentCut::file;
  return file.format == SourceFormat::jsonl;
}

class PieceCutter {
 public:
  PieceCutter(int64_t source, int64_t piece_bytes) : source_(source), most_(piece_bytes) {}

  void add(InputPart part) {
    piece_.parts.push_back(part);
    piece_.bytes += part.end - part.begin;
  }

  void add_whole(int64_t index, int64_t bytes) {
    if (piece_.bytes > 0 && piece_.bytes + bytes > most_) close();
    add({index, 0, bytes});
    if (piece_.bytes >= most_) close();
  }

  // Fills pieces to the brim; small remains stay with what stands before them.
  void add_in_parts(int64_t index, int64_t bytes) {
    const int64_t small = most_ / kSmallestShare;
    if (most_ - piece_.bytes < small) close();
    for (int64_t begin = 0; begin < bytes;) {
      int64_t end = begin + std::max<int64_t>(most_ - piece_.bytes, 1);
      if (bytes - end < small) end = bytes;
      end = std::min(end, bytes);
      add({index, begin, end});
      if (piece_.bytes >= most_) close();
      begin = end;
    }
  }

  std::vector<InputPiece> finish() {
    close();
    return std::move(pieces_);
  }

 private:
  void close() {
    if (piece_.parts.empty()) return;
    piece_.source = source_;
    pieces_.push_back(std::move(piece_));
    piece_ = {};
  }

  int64_t source_, most_;
  InputPiece piece_;
  std::vector<InputPiece> pieces_;
};

}  // namespace

std::vector<InputPiece> cut_pieces(const SourceConfig& source, int64_t index,
                                   const std::vector<InputFile>& files, int64_t piece_bytes) {
  ESPALIER_REQUIRE(piece_bytes >= 1, "pieces of {} bytes", piece_bytes);
  PieceCutter cutter(index, piece_bytes);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    if (files[i].bytes > piece_bytes && is_divisible(source, files[i])) {
      cutter.add_in_parts(number, files[i].bytes);
    } else {
      cutter.add_whole(number, files[i].bytes);
    }
  }
  return cutter.finish();
}

}  // namespace espalier
