// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/piece_builder.hpp"

#include <filesystem>
#include <memory>
#include <optional>

#include "core/clock.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "corpus/hash.hpp"
#include "corpus/held_out.hpp"
#include "corpus/source/document_stream.hpp"
#include "corpus/store/shard.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/store/shard_writer.hpp"

namespace espalier {

namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{1} << 15;  // encoded at once: in cache, whatever the document
constexpr double kWatchSeconds = 0.2;
constexpr int64_t kLargestSides = int64_t{1} << 33;
constexpr Stream kStreams[] = {Stream::train, Stream::validation};
constexpr char kSideOf[] = {'t', 'v'};

/// The two shards of a piece, each begun with its first document.
class PieceShards {
 public:
  PieceShards(const BuildPlan& plan, std::string root, int64_t piece, const Tokenizer& tokenizer)
      : plan_(plan), root_(std::move(root)), piece_(piece), tokenizer_(tokenizer) {}

  ShardWriter& of(Stream stream) {
    auto& writer = writers_[static_cast<size_t>(stream)];
    if (!writer)
      writer =
          std::make_unique<ShardWriter>(root_ + "/" + plan_.shard_name(piece_, stream), tokenizer_);
    return *writer;
  }

  std::vector<ShardRecord> publish() {
    std::vector<ShardRecord> records;
    for (const Stream stream : kStreams) {
      auto& writer = writers_[static_cast<size_t>(stream)];
      if (!writer) continue;
      ShardRecord record = writer->finish();
      record.file = plan_.shard_name(piece_, stream);
      record.source = plan_.pieces[static_cast<size_t>(piece_)].source;
      record.stream = stream;
      writer->publish();
      records.push_back(std::move(record));
    }
    return records;
  }

 private:
  const BuildPlan& plan_;
  std::string root_;
  int64_t piece_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ShardWriter> writers_[2];
};

class PieceBuilder {
 public:
  PieceBuilder(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
               const Tokenizer& tokenizer)
      : plan_(plan),
        folder_(folder),
        piece_(piece),
        tokenizer_(tokenizer),
        record_(plan.config.faults.examples),
        shards_(plan, plan.deduplicates() ? folder.raw() : folder.building(), piece, tokenizer) {
    if (plan.deduplicates()) keys_.emplace(plan.config.clean, folder.keys(piece));
  }

  void run(const PieceWatch& watch) {
    const auto& work = plan_.pieces[static_cast<size_t>(piece_)];
    const auto index = static_cast<size_t>(work.source);
    const SourceConfig& source = plan_.config.sources[index];
    const auto longest = static_cast<int64_t>(plan_.config.build.longest_document_mib * 1048576.0);
    DocumentStream stream(source, plan_.files[index], work, plan_.config.faults, longest,
                          record_.faults);
    Cleaner cleaner(plan_.config.clean, source);
    Document document;
    double told = monotonic_seconds();
    while (stream.next(document)) {
      record_.documents_read += 1;
      record_.bytes_read += static_cast<int64_t>(document.text.size());
      if (cleaner.clean(document.text, record_.cleaning)) keep(document, plan_.files[index]);
      const double now = monotonic_seconds();
      if (now - told < kWatchSeconds) continue;
      told = now;
      watch({stream.bytes_done(), record_.bytes_read});
    }
    watch({work.bytes, record_.bytes_read});
    finish();
  }

 private:
  void keep(const Document& document, const std::vector<InputFile>& files) {
    const std::string& text = document.text;
    if (text.empty()) {  // cleaning left nothing of it
      const InputFile& file = files[static_cast<size_t>(document.file)];
      record_.faults.note(FaultKind::empty_document,
                          {file.path, document.line, "nothing is left after cleaning"});
      return;
    }
    const BuildConfig& build = plan_.config.build;
    const Stream side = is_held_out(text, build.held_out, static_cast<uint64_t>(build.seed))
                            ? Stream::validation
                            : Stream::train;
    if (keys_) {
      keys_->add(text);
      sides_ += kSideOf[static_cast<size_t>(side)];
    }
    record_.documents_kept += 1;
    write(text, shards_.of(side));
  }

  void write(std::string_view text, ShardWriter& shard) {
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view part = rest.substr(0, tokenizer_.piece_end(rest, kPieceBytes));
      rest.remove_prefix(part.size());
      tokens_.clear();
      tokenizer_.append_tokens(part, tokens_);
      shard.append(tokens_.data(), static_cast<int64_t>(tokens_.size()));
    }
    shard.end_document(hash_bytes(text.data(), text.size()), static_cast<int64_t>(text.size()));
  }

  // The record last: it says that the rest is whole.
  void finish() {
    const bool is_broken = is_broken_for_test("corpus_record");
    if (is_broken) write_record(folder_.record(piece_), record_);
    test_point("corpus_shards");
    record_.shards = shards_.publish();
    if (keys_) {
      keys_->finish();
      write_text_file(folder_.sides(piece_), sides_);
    }
    test_point("corpus_record");
    if (!is_broken) write_record(folder_.record(piece_), record_);
  }

  const BuildPlan& plan_;
  const BuildFolder& folder_;
  int64_t piece_;
  const Tokenizer& tokenizer_;
  PieceRecord record_;
  PieceShards shards_;
  std::optional<KeyWriter> keys_;
  std::string sides_;  // 't' or 'v' for each document that was kept
  std::vector<int32_t> tokens_;
};

// Moves a shard that keeps all its documents. A build that was killed may have moved it before.
void move_shard(const BuildFolder& folder, const ShardRecord& shard) {
  for (const std::string& name : {shard.file, index_path(shard.file)}) {
    const std::string from = folder.raw() + "/" + name, to = folder.building() + "/" + name;
    if (fs::exists(from) || !fs::exists(to)) rename_durably(from, to);
  }
}

/// Copies the documents of a piece that stay.
class PieceFilter {
 public:
  PieceFilter(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
              const Tokenizer& tokenizer, const PieceRecord& record)
      : folder_(folder), shards_(plan, folder.building(), piece, tokenizer) {
    for (const ShardRecord& shard : record.shards)
      raw_[static_cast<size_t>(shard.stream)] =
          std::make_unique<Shard>(folder.raw() + "/" + shard.file, VerifyData::header);
  }

  FinalRecord run(int64_t piece, const std::vector<DroppedDocument>& dropped) {
    const std::string sides = read_text_file(folder_.sides(piece), kLargestSides);
    FinalRecord result;
    int64_t next[2] = {0, 0};  // document of each raw shard
    size_t drop = 0;
    for (size_t i = 0; i < sides.size(); ++i) {
      const size_t side = sides[i] == kSideOf[0] ? 0 : 1;
      const int64_t document = next[side]++;
      const bool is_dropped =
          drop < dropped.size() && dropped[drop].id.index == static_cast<int64_t>(i);
      if (!is_dropped) {
        copy(*raw_[side], document, shards_.of(kStreams[side]));
        continue;
      }
      (dropped[drop].is_exact ? result.dropped.exact : result.dropped.near) += 1;
      result.dropped.bytes += raw_[side]->document_text_bytes(document);
      ++drop;
    }
    ESPALIER_REQUIRE(drop == dropped.size(), "{} of {} duplicates found in piece {}", drop,
                     dropped.size(), piece);
    result.shards = shards_.publish();
    return result;
  }

 private:
  void copy(const Shard& from, int64_t document, ShardWriter& to) {
    const int64_t begin = from.document_begin(document);
    const int64_t count = from.document_begin(document + 1) - 1 - begin;  // its end is put anew
    tokens_.resize(static_cast<size_t>(count));
    from.read(begin, count, tokens_.data());
    to.append(tokens_.data(), count);
    to.end_document(from.document_hash(document), from.document_text_bytes(document));
  }

  const BuildFolder& folder_;
  PieceShards shards_;
  std::unique_ptr<Shard> raw_[2];
  std::vector<int32_t> tokens_;
};

}  // namespace

void build_piece(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
                 const Tokenizer& tokenizer, const PieceWatch& watch) {
  PieceBuilder(plan, folder, piece, tokenizer).run(watch);
}

void finish_piece(const BuildPlan& plan, const BuildFolder& folder, int64_t piece,
                  const Tokenizer& tokenizer, const std::vector<DroppedDocument>& dropped) {
  const PieceRecord record = read_piece_record(folder.record(piece), plan.config.faults.examples);
  FinalRecord result;
  if (dropped.empty()) {
    for (const ShardRecord& shard : record.shards) move_shard(folder, shard);
    result.shards = record.shards;
  } else {
    result = PieceFilter(plan, folder, piece, tokenizer, record).run(piece, dropped);
  }
  test_point("corpus_final");
  write_record(folder.final_record(piece), result);
}

}  // namespace espalier
