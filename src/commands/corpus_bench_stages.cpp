// SPDX-License-Identifier: Apache-2.0
// Reading, cleaning and hashing.
#include "commands/corpus_bench_stages.hpp"

#include <filesystem>
#include <memory>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/clean/cleaner.hpp"
#include "corpus/clean/deduplication.hpp"
#include "corpus/clean/min_hash.hpp"
#include "corpus/hash.hpp"
#include "corpus/held_out.hpp"
#include "corpus/source/document_stream.hpp"
#include "corpus/source/text_reader.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr int64_t kWholeFiles = int64_t{1} << 50;  // bytes of a piece: all files in one
constexpr int64_t kLargestFile = int64_t{1} << 40;
constexpr size_t kReadBytes = size_t{1} << 18;

// Keeps the compiler from leaving out what makes `value`.
template <class T>
void use(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// One input with its files listed.
struct OpenInput {
  SourceConfig source;
  std::vector<InputFile> files;
  std::vector<InputPiece> pieces;
};

std::function<void()> reader_of(const BenchInput& input, const CorpusConfig& config) {
  auto open = std::make_shared<OpenInput>();
  open->source = input.source;
  open->files = list_inputs(open->source);
  open->pieces = cut_pieces(open->source, 0, open->files, kWholeFiles);
  const auto longest = static_cast<int64_t>(config.build.longest_document_mib * 1048576.0);
  return [open, &config, longest] {
    for (const InputPiece& piece : open->pieces) {
      InputFaults faults(0);
      DocumentStream stream(open->source, open->files, piece, config.faults, longest, faults);
      Document document;
      while (stream.next(document)) use(document);
    }
  };
}

void read_plainly(const std::string& path) {
  TextReader reader(path, 0, INT64_MAX);
  static thread_local std::string block(kReadBytes, '\0');
  while (reader.read(block.data(), block.size()) > 0) use(block);
}

struct CleanCase {
  const char* name;
  void (*turn_on)(CleanConfig& config, const CleanConfig& deck);
};

// Each step alone: with the deck's limit, and where it has none, with one that hardly any document
// meets, which is the same work.
const CleanCase kCleanCases[] = {
    {"NFC", [](CleanConfig& c, const CleanConfig&) { c.normalise = Normalisation::nfc; }},
    {"NFKC", [](CleanConfig& c, const CleanConfig&) { c.normalise = Normalisation::nfkc; }},
    {"control characters", [](CleanConfig& c, const CleanConfig&) { c.remove_control = true; }},
    {"number of characters",
     [](CleanConfig& c, const CleanConfig& d) {
       c.min_characters = d.min_characters > 0 ? d.min_characters : 1;
     }},
    {"share of symbols",
     [](CleanConfig& c, const CleanConfig& d) {
       c.max_symbol_ratio = d.max_symbol_ratio < 1.0 ? d.max_symbol_ratio : 0.99;
     }},
    {"repeated lines",
     [](CleanConfig& c, const CleanConfig& d) {
       c.max_repeated_lines = d.max_repeated_lines < 1.0 ? d.max_repeated_lines : 0.99;
     }},
    {"scripts of the language",
     [](CleanConfig& c, const CleanConfig& d) {
       c.min_script_share = d.min_script_share > 0.0 ? d.min_script_share : 0.01;
     }},
    {"all of the deck's cleaning", [](CleanConfig& c, const CleanConfig& d) { c = d; }},
};

std::function<void()> cleaner_of(const CleanConfig& config, const BenchText& text) {
  return [config, &text] {
    std::string document;
    CleanCounts counts;
    for (size_t s = 0; s < text.sources.size(); ++s) {
      Cleaner cleaner(config, text.sources[s]);
      for (const std::string& original : text.documents[s]) {
        document = original;
        use(cleaner.clean(document, counts));
      }
    }
  };
}

void make_keys(const CleanConfig& config, const BenchText& text, const std::string& path) {
  KeyWriter keys(config, path);
  text.for_each([&](const std::string& document) { keys.add(document); });
  keys.finish();
}

}  // namespace

std::vector<BenchRow> bench_reading(const BenchPlace& place) {
  const std::string folder = place.folder + "/inputs";
  std::filesystem::create_directories(folder);
  const int64_t bytes = place.text.bytes;
  std::vector<BenchStage> stages;
  const std::vector<BenchInput> inputs = write_bench_inputs(place.text, folder);
  stages.push_back({"read(2)", bytes, [folder] { read_plainly(folder + "/all.txt"); }, ""});
  const std::string gzip = read_text_file(folder + "/all.txt.gz", kLargestFile);
  const std::string zstd = read_text_file(folder + "/all.txt.zst", kLargestFile);
  stages.push_back({"zlib alone", bytes, [&] { use(gunzip_alone(gzip)); }, ""});
  stages.push_back({"zstd alone", bytes, [&] { use(unzstd_alone(zstd)); }, ""});
  std::vector<std::string> pages;
  place.text.for_each([&](const std::string& document) { pages.push_back(html_page(document)); });
  stages.push_back({"libxml2 alone", bytes, [&] { use(parse_alone(pages)); }, ""});
  for (const BenchInput& input : inputs)
    stages.push_back({input.name, bytes, reader_of(input, place.config), input.against});
  return measure_stages("reading into documents, UTF-8 checked", BenchClock::cpu, place.repeats,
                        stages);
}

std::vector<BenchRow> bench_cleaning(const BenchPlace& place) {
  const BenchText& text = place.text;
  std::vector<BenchStage> stages;
  stages.push_back({"copying alone", text.bytes,
                    [&] {
                      std::string copy;
                      text.for_each([&](const std::string& document) {
                        copy = document;
                        use(copy);
                      });
                    },
                    ""});
  stages.push_back({"checking UTF-8", text.bytes,
                    [&] { text.for_each([](const std::string& d) { use(find_broken_utf8(d)); }); },
                    "copying alone"});
  for (const CleanCase& one : kCleanCases) {
    CleanConfig config;
    one.turn_on(config, place.config.clean);
    stages.push_back({one.name, text.bytes, cleaner_of(config, text), "copying alone"});
  }
  return measure_stages("UTF-8 and cleaning, with a copy", BenchClock::cpu, place.repeats, stages);
}

std::vector<BenchRow> bench_hashing(const BenchPlace& place) {
  const BenchText& text = place.text;
  const BuildConfig& build = place.config.build;
  CleanConfig exact = place.config.clean, near = place.config.clean;
  exact.deduplicate = Deduplication::exact;
  near.deduplicate = Deduplication::near;
  const std::string exact_path = place.folder + "/exact.keys";
  const std::string near_path = place.folder + "/near.keys";
  make_keys(near, text, near_path);
  std::vector<BenchStage> stages;
  stages.push_back(
      {"XXH3", text.bytes,
       [&] { text.for_each([](const std::string& d) { use(hash_bytes(d.data(), d.size())); }); },
       ""});
  stages.push_back({"held-out choice", text.bytes,
                    [&] {
                      text.for_each([&](const std::string& d) {
                        use(is_held_out(d, 0.01, static_cast<uint64_t>(build.seed)));
                      });
                    },
                    "XXH3"});
  stages.push_back({"MinHash signatures", text.bytes,
                    [&] {
                      MinHash hash(near.shingle);
                      Signature signature;
                      text.for_each([&](const std::string& d) { use(hash.sign(d, signature)); });
                    },
                    "XXH3"});
  stages.push_back({"exact keys, sorted and written", text.bytes,
                    [&] { make_keys(exact, text, exact_path); }, "XXH3"});
  stages.push_back({"near keys, sorted and written", text.bytes,
                    [&] { make_keys(near, text, near_path); }, "XXH3"});
  stages.push_back({"finding near duplicates by keys", text.bytes,
                    [&] { use(choose_dropped(find_duplicates(near, {near_path}, 0, 1))); },
                    "XXH3"});
  return measure_stages("hashing", BenchClock::cpu, place.repeats, stages);
}

}  // namespace espalier
