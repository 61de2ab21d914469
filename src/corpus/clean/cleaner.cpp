// SPDX-License-Identifier: Apache-2.0
// The steps of [clean] in their order, from one scan of the text where nothing has to change.
#include "corpus/clean/cleaner.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "corpus/clean/character_table.hpp"
#include "corpus/clean/language_scripts.hpp"
#include "corpus/clean/normalise.hpp"
#include "corpus/hash.hpp"

namespace espalier {
namespace {

constexpr std::array<const char*, kCleanSteps> kStepNames = {
    "normalise",    "remove_control", "min_characters", "max_characters",
    "symbol_ratio", "repeated_lines", "script_share"};

int64_t read_count(const nlohmann::json& step, const char* name, const char* field) {
  const auto found = step.find(field);
  if (found == step.end() || !found->is_number_integer() || found->get<int64_t>() < 0)
    throw DataError(fmt::format("counts of cleaning: {}.{} is not a count; build the piece again",
                                name, field));
  return found->get<int64_t>();
}

constexpr bool is_line_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

std::string_view trim_line(std::string_view line) {
  while (!line.empty() && is_line_blank(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_line_blank(line.back())) line.remove_suffix(1);
  return line;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

const char* clean_step_name(CleanStep step) {
  return kStepNames.at(static_cast<size_t>(step));
}

void CleanCounts::add(const CleanCounts& other) {
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].changed += other.steps[i].changed;
    steps[i].dropped += other.steps[i].dropped;
    steps[i].dropped_bytes += other.steps[i].dropped_bytes;
  }
}

nlohmann::json CleanCounts::to_json() const {
  nlohmann::json json = nlohmann::json::object();
  for (size_t i = 0; i < steps.size(); ++i) {
    json[kStepNames[i]] = {{"changed", steps[i].changed},
                           {"dropped", steps[i].dropped},
                           {"dropped_bytes", steps[i].dropped_bytes}};
  }
  return json;
}

CleanCounts CleanCounts::from_json(const nlohmann::json& json) {
  CleanCounts counts;
  for (size_t i = 0; i < counts.steps.size(); ++i) {
    const char* const name = kStepNames[i];
    const auto step = json.is_object() ? json.find(name) : json.end();
    if (step == json.end() || !step->is_object())
      throw DataError(
          fmt::format("counts of cleaning: step {} is missing; build the piece again", name));
    counts.steps[i] = {read_count(*step, name, "changed"), read_count(*step, name, "dropped"),
                       read_count(*step, name, "dropped_bytes")};
  }
  return counts;
}

struct Cleaner::State {
  CleanConfig config;
  ScriptSet scripts{};
  bool judges_scripts = false, needs_scan = false;
  uint16_t not_normal = 0;      // the flag of characters that ask for the step `normalise`
  std::vector<uint64_t> lines;  // hashes; kept to save the allocation

  /// Whether the text had to change; `scan` is then that of the new one.
  bool normalise(std::string& text, TextScan& scan) const {
    if ((scan.flags & not_normal) == 0) return false;
    std::string normal = normalise_text(text, config.normalise);
    if (normal == text) return false;
    text.swap(normal);
    scan = scan_text(text, scripts);
    return true;
  }

  /// Share of the lines with text that stood before in the document.
  double repeated_share(std::string_view text) {
    lines.clear();
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = trim_line(text.substr(0, end));
      if (!line.empty()) lines.push_back(hash_bytes(line.data(), line.size()));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    std::sort(lines.begin(), lines.end());
    int64_t repeated = 0;
    for (size_t i = 1; i < lines.size(); ++i) repeated += lines[i] == lines[i - 1] ? 1 : 0;
    return share(repeated, static_cast<int64_t>(lines.size()));
  }

  /// The first filter that drops the document, or null.
  const CleanStep* find_drop(const TextScan& scan, std::string_view text) {
    static constexpr CleanStep kFilters[] = {CleanStep::min_characters, CleanStep::max_characters,
                                             CleanStep::symbol_ratio, CleanStep::repeated_lines,
                                             CleanStep::script_share};
    if (scan.characters < config.min_characters) return &kFilters[0];
    if (config.max_characters > 0 && scan.characters > config.max_characters) return &kFilters[1];
    if (config.max_symbol_ratio < 1.0 &&
        share(scan.symbols, scan.characters) > config.max_symbol_ratio)
      return &kFilters[2];
    if (config.max_repeated_lines < 1.0 && repeated_share(text) > config.max_repeated_lines)
      return &kFilters[3];
    if (judges_scripts && scan.letters > 0 &&
        share(scan.script_letters, scan.letters) < config.min_script_share)
      return &kFilters[4];
    return nullptr;
  }
};

Cleaner::Cleaner(const CleanConfig& config, const SourceConfig& source)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = config;
  if (config.normalise == Normalisation::nfc) s.not_normal = kNotNfc;
  if (config.normalise == Normalisation::nfkc) s.not_normal = kNotNfkc;
  s.judges_scripts = config.min_script_share > 0.0 && !skips_script_share(config, source);
  if (s.judges_scripts && scripts_of_language(source.language, s.scripts) == 0)
    throw DeckError(fmt::format(
        "source {}: no script is known for language = \"{}\", but clean.min_script_share = {} asks "
        "for it; use a tag that names the script ({}-Latn), or leave the language empty",
        source.name, source.language, config.min_script_share, source.language));
  s.needs_scan = config.normalise != Normalisation::none || config.remove_control ||
                 config.min_characters > 0 || config.max_characters > 0 ||
                 config.max_symbol_ratio < 1.0 || s.judges_scripts;
}

Cleaner::~Cleaner() = default;

bool Cleaner::skips_script_share(const CleanConfig& config, const SourceConfig& source) {
  return config.min_script_share > 0.0 && (source.language.empty() || source.language == "und");
}

bool Cleaner::clean(std::string& text, CleanCounts& counts) {
  State& s = *state_;
  TextScan scan;
  if (s.needs_scan) scan = scan_text(text, s.scripts);
  bool changed = s.normalise(text, scan);
  if (s.config.remove_control && (scan.flags & kControl) != 0) {
    remove_control(text);
    ++counts.of(CleanStep::remove_control).changed;
    scan = scan_text(text, s.scripts);
    // A mark may have come to stand beside its letter.
    changed = s.normalise(text, scan) || changed;
  }
  counts.of(CleanStep::normalise).changed += changed ? 1 : 0;
  const CleanStep* const step = s.find_drop(scan, text);
  if (step == nullptr) return true;
  StepCount& count = counts.of(*step);
  ++count.dropped;
  count.dropped_bytes += static_cast<int64_t>(text.size());
  return false;
}

}  // namespace espalier
