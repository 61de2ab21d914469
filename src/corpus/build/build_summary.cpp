// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/build_summary.hpp"

#include "core/error.hpp"
#include "corpus/build/piece_record.hpp"
#include "corpus/utf8.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {

namespace {

constexpr int64_t kShownPlaces = 3;  // of each kind of fault, in an error

/// What came of one source.
struct SourceSum {
  int64_t documents_read = 0, bytes_read = 0;
  CleanCounts cleaning;
  DuplicateCount duplicates;
  InputFaults faults;
  explicit SourceSum(int64_t examples) : faults(examples) {}
};

nlohmann::json json_of(const SourceSum& sum, const std::string& name, int64_t files) {
  nlohmann::json json = {{"source", name},
                         {"files", files},
                         {"documents_read", sum.documents_read},
                         {"text_bytes_read", sum.bytes_read},
                         {"faults", sum.faults.to_json()},
                         {"cleaning", sum.cleaning.to_json()}};
  json["duplicates"] = sum.duplicates.to_json();
  return json;
}

// A store without text to train on, or without the part that was to be held out, is of no use.
void require_documents(const StoreManifest& manifest, const std::vector<SourceSum>& sums) {
  int64_t documents[2] = {0, 0};
  for (const ShardRecord& shard : manifest.shards)
    documents[static_cast<size_t>(shard.stream)] += shard.documents;
  if (documents[0] + documents[1] == 0) {
    int64_t read = 0, dropped = 0;
    std::string faults, places;
    InputFaults all(kShownPlaces);
    for (const SourceSum& sum : sums) {
      read += sum.documents_read;
      for (const StepCount& step : sum.cleaning.steps) dropped += step.dropped;
      all.append(sum.faults);
    }
    for (int i = 0; i < kFaultKinds; ++i) {
      const auto kind = static_cast<FaultKind>(i);
      if (all.count(kind) == 0) continue;
      faults += fmt::format(", {} {}", fault_name(kind), all.count(kind));
      for (const FaultPlace& place : all.places(kind))
        places += fmt::format("\n  {}{}: {}", printable_text(place.path),
                              place.line > 0 ? fmt::format(":{}", place.line) : "", place.what);
    }
    throw DataError(fmt::format(
        "no document is left, and no store was made: {} were read, {} of them dropped by "
        "[clean]{}; loosen [clean] or [faults], mend the sources' format and field, or give other "
        "files, and build again with --overwrite{}",
        read, dropped, faults, places));
  }
  if (documents[0] == 0 || (documents[1] == 0 && manifest.held_out > 0))
    throw DataError(fmt::format(
        "no document fell to {} (build.held_out = {}), and no store was made; give more documents "
        "(documents = \"size\" cuts long ones) or another share, and build again with "
        "--overwrite",
        documents[0] == 0 ? "training" : "validation", manifest.held_out));
}

}  // namespace

StoreManifest make_manifest(const BuildPlan& plan, const BuildFolder& folder,
                            const Tokenizer& tokenizer) {
  const CorpusConfig& config = plan.config;
  StoreManifest manifest;
  manifest.tokenizer = tokenizer.name();
  manifest.vocab_size = tokenizer.vocab_size();
  manifest.end_of_document = tokenizer.end_of_document();
  manifest.held_out = config.build.held_out;
  manifest.seed = static_cast<uint64_t>(config.build.seed);
  std::vector<SourceSum> sums(config.sources.size(), SourceSum(config.faults.examples));
  for (size_t i = 0; i < plan.pieces.size(); ++i) {
    const auto piece = static_cast<int64_t>(i);
    PieceRecord record = read_piece_record(folder.record(piece), config.faults.examples);
    SourceSum& sum = sums[static_cast<size_t>(plan.pieces[i].source)];
    sum.documents_read += record.documents_read;
    sum.bytes_read += record.bytes_read;
    sum.cleaning.add(record.cleaning);
    sum.faults.append(record.faults);
    std::vector<ShardRecord> shards = std::move(record.shards);
    if (plan.deduplicates()) {
      FinalRecord last = read_final_record(folder.final_record(piece));
      sum.duplicates.add(last.dropped);
      shards = std::move(last.shards);
    }
    manifest.shards.insert(manifest.shards.end(), shards.begin(), shards.end());
  }
  nlohmann::json sources = nlohmann::json::array();
  for (size_t i = 0; i < sums.size(); ++i) {
    const SourceConfig& source = config.sources[i];
    manifest.sources.push_back({source.name, source.language, source.weight});
    sources.push_back(json_of(sums[i], source.name, static_cast<int64_t>(plan.files[i].size())));
  }
  CorpusConfig shown = config;
  shown.build.output.clear();
  manifest.details = {{"plan", plan_fingerprint(plan)},
                      {"deck", write_corpus_deck(shown)},
                      {"sources", std::move(sources)}};
  require_documents(manifest, sums);
  return manifest;
}

}  // namespace espalier
