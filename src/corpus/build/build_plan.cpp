// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/build_plan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.hpp"
#include "corpus/clean/cleaner.hpp"
#include "corpus/clean/min_hash.hpp"
#include "corpus/hash.hpp"
#include "corpus/source/html_encoding.hpp"
#include "corpus/utf8.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {

namespace {

namespace fs = std::filesystem;

constexpr int kPlanFormat = 1;
constexpr size_t kMostDifferences = 8;

// The deck without what does not touch the store's bytes.
std::string deck_of(const BuildPlan& plan) {
  CorpusConfig config = plan.config;
  config.build.output.clear();
  config.tokenizer.path.clear();  // its content is in the tokenizer's name
  config.train_tokenizer = TrainTokenizerConfig{};
  return write_corpus_deck(config);
}

int64_t changed_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
}

void cut_all(BuildPlan& plan) {
  const auto piece_bytes =
      std::max<int64_t>(1, static_cast<int64_t>(plan.config.build.shard_mib * 1048576.0));
  plan.first_piece = {0};
  for (size_t i = 0; i < plan.config.sources.size(); ++i) {
    for (InputPiece& piece :
         cut_pieces(plan.config.sources[i], static_cast<int64_t>(i), plan.files[i], piece_bytes))
      plan.pieces.push_back(std::move(piece));
    plan.first_piece.push_back(static_cast<int64_t>(plan.pieces.size()));
  }
}

// A file name may hold any bytes, and so may a deck, JSON only UTF-8: others stand as a list of
// bytes.
nlohmann::json json_of(const std::string& text) {
  if (count_broken_utf8(text) == 0) return text;
  return std::vector<uint8_t>(text.begin(), text.end());
}

std::string text_of(const nlohmann::json& json) {
  if (json.is_string()) return json.get<std::string>();
  const auto bytes = json.get<std::vector<uint8_t>>();
  return {bytes.begin(), bytes.end()};
}

// A line for each file of one plan that the other has not, or has otherwise.
void compare_files(const nlohmann::json& before, const nlohmann::json& after, const char* gone,
                   const char* changed, std::vector<std::string>& lines) {
  std::map<std::string, std::string> known;
  for (const auto& source : after)
    for (const auto& file : source) known[text_of(file.at(0))] = file.dump();
  for (const auto& source : before)
    for (const auto& file : source) {
      const std::string path = text_of(file.at(0));
      const auto found = known.find(path);
      if (found == known.end())
        lines.push_back(fmt::format("{} {}", printable_text(path), gone));
      else if (changed != nullptr && found->second != file.dump())
        lines.push_back(fmt::format("{} {}", printable_text(path), changed));
    }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void compare_decks(const std::string& before, const std::string& after,
                   std::vector<std::string>& lines) {
  const std::vector<std::string> a = lines_of(before), b = lines_of(after);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string x = i < a.size() ? a[i] : "nothing", y = i < b.size() ? b[i] : "nothing";
    if (x != y)
      lines.push_back(
          fmt::format("the deck said {}, and says {}", printable_text(x), printable_text(y)));
  }
}

// What would else be found by the first piece of a source, hours later.
void require_usable(const CorpusConfig& config) {
  for (const SourceConfig& source : config.sources) {
    const Cleaner cleaner(config.clean, source);
    if (!source.encoding.empty() && !is_known_encoding(source.encoding))
      throw DeckError(fmt::format(
          "source {}: encoding = \"{}\" is not known; use a name such as shift_jis or iso-8859-1",
          source.name, source.encoding));
  }
  if (config.clean.deduplicate == Deduplication::near) choose_bands(config.clean.similarity);
}

// The folder that a path of a source is searched through; empty if it names files alone.
fs::path searched_folder(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path;
  const size_t deep = path.find("**");
  if (deep == std::string::npos) return {};
  const fs::path fixed =
      fs::path(path.substr(0, std::min(deep, path.find_first_of("*?[")))).parent_path();
  return fixed.empty() ? fs::path(".") : fixed;
}

// A store among its own inputs would be read when its build goes on, or is done again.
void require_apart(const CorpusConfig& config) {
  std::error_code error;
  if (config.build.output.empty()) return;
  const fs::path output = fs::weakly_canonical(config.build.output, error);
  for (const SourceConfig& source : config.sources)
    for (const std::string& path : source.paths) {
      const fs::path searched = searched_folder(path);
      if (searched.empty()) continue;
      const fs::path folder = fs::weakly_canonical(searched, error);
      const auto last = std::mismatch(folder.begin(), folder.end(), output.begin(), output.end());
      if (last.first != folder.end()) continue;
      throw DeckError(
          fmt::format("build.output = {} lies in {}, all of whose files source {} reads; choose a "
                      "place outside",
                      config.build.output, searched.string(), source.name));
    }
}

}  // namespace

std::string BuildFolder::record(int64_t piece) const {
  return fmt::format("{}/piece-{:06}.json", work(), piece);
}
std::string BuildFolder::final_record(int64_t piece) const {
  return fmt::format("{}/final-{:06}.json", work(), piece);
}
std::string BuildFolder::keys(int64_t piece) const {
  return fmt::format("{}/keys-{:06}", work(), piece);
}
std::string BuildFolder::sides(int64_t piece) const {
  return fmt::format("{}/sides-{:06}", work(), piece);
}
std::string BuildFolder::pairs(int64_t range) const {
  return fmt::format("{}/pairs-{:06}", work(), range);
}

int64_t BuildPlan::bytes() const {
  int64_t sum = 0;
  for (const InputPiece& piece : pieces) sum += piece.bytes;
  return sum;
}

std::string BuildPlan::shard_name(int64_t piece, Stream stream) const {
  const auto source = static_cast<size_t>(pieces[static_cast<size_t>(piece)].source);
  return fmt::format("{}/{}-{:05}.tok", stream == Stream::train ? "train" : "validation",
                     config.sources[source].name, piece - first_piece[source]);
}

BuildPlan make_build_plan(const CorpusConfig& config, const std::string& tokenizer) {
  require_usable(config);
  require_apart(config);
  BuildPlan plan;
  plan.config = config;
  plan.tokenizer = tokenizer;
  for (const SourceConfig& source : config.sources) plan.files.push_back(list_inputs(source));
  cut_all(plan);
  return plan;
}

std::string encode_plan(const BuildPlan& plan) {
  nlohmann::json files = nlohmann::json::array();
  for (const auto& source : plan.files) {
    nlohmann::json list = nlohmann::json::array();
    for (const InputFile& file : source)
      list.push_back({json_of(file.path), file.bytes, changed_at(file.path),
                      static_cast<int>(file.compression), static_cast<int>(file.format)});
    files.push_back(std::move(list));
  }
  return nlohmann::json{{"format", kPlanFormat},
                        {"deck", json_of(deck_of(plan))},
                        {"tokenizer", plan.tokenizer},
                        {"files", std::move(files)}}
             .dump(1) +
         "\n";
}

BuildPlan decode_plan(const std::string& text, const CorpusConfig& config,
                      const std::string& path) {
  BuildPlan plan;
  plan.config = config;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    plan.tokenizer = json.at("tokenizer").get<std::string>();
    for (const auto& source : json.at("files")) {
      auto& list = plan.files.emplace_back();
      for (const auto& file : source)
        list.push_back({text_of(file.at(0)), file.at(1).get<int64_t>(),
                        static_cast<Compression>(file.at(3).get<int>()),
                        static_cast<SourceFormat>(file.at(4).get<int>())});
    }
  } catch (const nlohmann::json::exception& e) {
    throw DataError(fmt::format("{}: is no plan of a build ({}); give --overwrite to begin again",
                                path, e.what()));
  }
  ESPALIER_REQUIRE(plan.files.size() == config.sources.size(), "{} lists for {} sources",
                   plan.files.size(), config.sources.size());
  cut_all(plan);
  return plan;
}

std::vector<std::string> plan_differences(const std::string& before, const std::string& after) {
  if (before == after) return {};
  std::vector<std::string> lines;
  try {
    const auto a = nlohmann::json::parse(before), b = nlohmann::json::parse(after);
    compare_decks(text_of(a.at("deck")), text_of(b.at("deck")), lines);
    if (a.at("tokenizer") != b.at("tokenizer"))
      lines.push_back(fmt::format("the tokenizer was {}, and is {}",
                                  a.at("tokenizer").get<std::string>(),
                                  b.at("tokenizer").get<std::string>()));
    compare_files(a.at("files"), b.at("files"), "is gone", "has changed", lines);
    compare_files(b.at("files"), a.at("files"), "is new", nullptr, lines);
  } catch (const nlohmann::json::exception&) {
    lines = {"it is not readable"};
  }
  if (lines.empty()) lines = {"it was made by another release"};
  if (lines.size() > kMostDifferences) {
    const size_t more = lines.size() - kMostDifferences;
    lines.resize(kMostDifferences);
    lines.push_back(fmt::format("and {} more", more));
  }
  return lines;
}

std::string plan_fingerprint(const BuildPlan& plan) {
  RunningHash hash;
  const auto add = [&](const std::string& text) {
    hash.update(text.data(), text.size() + 1);  // the closing zero tells where a text ends
  };
  add(deck_of(plan));
  add(plan.tokenizer);
  for (const auto& source : plan.files)
    for (const InputFile& file : source) {
      add(file.path);
      add(fmt::format("{}", file.bytes));
    }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace espalier
