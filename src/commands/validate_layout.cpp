// SPDX-License-Identifier: Apache-2.0
#include "commands/validate_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "core/error.hpp"

namespace espalier {
namespace {

// Spelling on the command line and in the deck.
struct Word {
  const char* factor;
  const char* value;
};
constexpr Word kSchedules[] = {
    {"gpipe", "gpipe"}, {"1f1b", "1f1b"}, {"interleaved", "interleaved"}, {"zb", "zero_bubble"}};
constexpr Word kRecomputes[] = {
    {"rec=none", "none"}, {"rec=selective", "selective"}, {"rec=full", "full"}};

constexpr const char* kGrammar =
    "a layout is made of tpN, ppN, dpN, cpN (ranks), zN (ZeRO stage), shN (zero_shards), sp, "
    "gpipe, 1f1b, interleaved, zb, vN (virtual_stages), rec=none, rec=selective, rec=full, joined "
    "by x or +, such as dp2xtp2+z1";

template <size_t N>
std::string factor_of(const Word (&words)[N], const std::string& value) {
  for (const Word& word : words)
    if (value == word.value) return word.factor;
  return value;
}

// A factor "<letters><number>" with these letters.
std::optional<int64_t> number_behind(const std::string& letters, const std::string& factor) {
  if (factor.rfind(letters, 0) != 0) return std::nullopt;
  const char* const first = factor.data() + letters.size();
  const char* const last = factor.data() + factor.size();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(first, last, number);
  if (error != std::errc() || end != last || number < 0) return std::nullopt;
  return number;
}

// Takes one factor; false if it is none. A number out of range is left to the deck's rules.
bool take_factor(Layout& layout, const std::string& factor) {
  for (const auto& [letters, extent] : {std::make_pair("pp", &layout.pipeline),
                                        {"dp", &layout.data},
                                        {"cp", &layout.context},
                                        {"tp", &layout.tensor}})
    if (const auto n = number_behind(letters, factor))
      return *n > 0 && *n < 65537 && (*extent = *n);
  for (const auto& [letters, option] : {std::make_pair("z", &layout.zero_stage),
                                        {"sh", &layout.zero_shards},
                                        {"v", &layout.virtual_stages}})
    if (const auto n = number_behind(letters, factor)) {
      *option = n;
      return true;
    }
  if (factor == "sp") layout.sequence_parallel = true;
  for (const Word& word : kSchedules)
    if (factor == word.factor) layout.schedule = word.value;
  for (const Word& word : kRecomputes)
    if (factor == word.factor) layout.recompute = word.value;
  return factor == "sp" || factor == "one" ||
         std::any_of(std::begin(kSchedules), std::end(kSchedules),
                     [&](const Word& w) { return factor == w.factor; }) ||
         std::any_of(std::begin(kRecomputes), std::end(kRecomputes),
                     [&](const Word& w) { return factor == w.factor; });
}

// What a factor is about, so that none is said twice: its letters, or that it is a schedule.
std::string kind_of(const std::string& factor) {
  for (const Word& word : kSchedules)
    if (factor == word.factor) return "schedule";
  if (factor.rfind("rec=", 0) == 0) return "rec";
  return factor.substr(0, factor.find_first_of("0123456789"));
}

std::vector<std::string> split(const std::string& text, const std::string& separators) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (separators.find(c) != std::string::npos)
      parts.emplace_back();
    else if (c != ' ')
      parts.back() += c;
  }
  return parts;
}

// The options that --all-options adds to a layout.
void add_variants(std::vector<Layout>& found, const Layout& layout) {
  std::vector<std::string> schedules = {""};
  if (layout.pipeline > 1) {
    schedules.clear();
    for (const Word& word : kSchedules) schedules.emplace_back(word.value);
  }
  for (const bool cuts_sequence : {false, true}) {
    if (cuts_sequence && layout.tensor == 1) continue;
    for (const std::string& schedule : schedules)
      for (const Word& recompute : kRecomputes) {
        found.push_back(layout);
        if (layout.tensor > 1) found.back().sequence_parallel = cuts_sequence;
        found.back().schedule = schedule;
        found.back().recompute = recompute.value;
      }
  }
}

}  // namespace

std::string Layout::name() const {
  std::vector<std::string> axes, options;
  for (const auto& [letters, extent] :
       {std::make_pair("pp", pipeline), {"dp", data}, {"cp", context}, {"tp", tensor}})
    if (extent > 1) axes.push_back(fmt::format("{}{}", letters, extent));
  for (const auto& [letters, option] :
       {std::make_pair("z", zero_stage), {"sh", zero_shards}, {"v", virtual_stages}})
    if (option) options.push_back(fmt::format("{}{}", letters, *option));
  if (sequence_parallel.value_or(false)) options.emplace_back("sp");
  if (!schedule.empty()) options.push_back(factor_of(kSchedules, schedule));
  if (!recompute.empty()) options.push_back(factor_of(kRecomputes, recompute));
  const std::string text = axes.empty() ? "one" : fmt::format("{}", fmt::join(axes, "x"));
  return options.empty() ? text : fmt::format("{}+{}", text, fmt::join(options, "+"));
}

std::string Layout::folder() const {
  std::string text = name();
  for (char& c : text)
    if (c == 'x' || c == '+' || c == '=') c = '-';
  return text;
}

std::vector<Layout> parse_layouts(const std::string& text) {
  std::vector<Layout> layouts;
  std::set<std::string> names;
  std::string faults;
  for (const std::string& part : split(text, ",")) {
    Layout layout;
    bool is_sound = true;
    std::set<std::string> kinds;
    for (const std::string& factor : split(part, "x+")) {
      if (take_factor(layout, factor)) {
        if (kinds.insert(kind_of(factor)).second) continue;
        faults += fmt::format("--layouts: \"{}\" says twice what \"{}\" says\n", part, factor);
        is_sound = false;
        continue;
      }
      faults += fmt::format("--layouts: \"{}\" of \"{}\" is no part of a layout\n", factor, part);
      is_sound = false;
    }
    if (is_sound && !names.insert(layout.name()).second)
      faults += fmt::format("--layouts: {} is named twice\n", layout.name());
    layouts.push_back(layout);
  }
  if (!faults.empty()) throw DeckError(faults + kGrammar);
  return layouts;
}

Layout reference_layout() {
  Layout one;
  one.zero_stage = 0;
  one.sequence_parallel = false;
  return one;
}

std::vector<std::string> layout_settings(const Layout& layout, const Config& deck) {
  const GridConfig& grid = deck.grid;
  std::vector<std::string> settings = {
      fmt::format("grid.pipeline_parallel={}", layout.pipeline),
      fmt::format("grid.data_parallel={}", layout.data),
      fmt::format("grid.context_parallel={}", layout.context),
      fmt::format("grid.tensor_parallel={}", layout.tensor),
  };
  const auto set = [&](const char* key, const auto& value) {
    settings.push_back(fmt::format("grid.{}={}", key, value));
  };
  if (layout.zero_stage && *layout.zero_stage != grid.zero_stage)
    set("zero_stage", *layout.zero_stage);
  if (layout.zero_shards)
    set("zero_shards", *layout.zero_shards);
  else if (grid.zero_shards > 0 && layout.data % grid.zero_shards != 0)
    set("zero_shards", 0);  // the deck's groups do not fit this extent
  // Without tensor parallelism there is nothing to cut the sequence over.
  const bool cuts_sequence =
      layout.sequence_parallel.value_or(grid.sequence_parallel && layout.tensor > 1);
  if (cuts_sequence != grid.sequence_parallel) set("sequence_parallel", cuts_sequence);
  if (!layout.recompute.empty()) set("recompute", layout.recompute);
  const bool is_plain = grid.pipeline_schedule == PipelineSchedule::one_forward_one_backward;
  if (!layout.schedule.empty())
    set("pipeline_schedule", "\"" + layout.schedule + "\"");
  else if (layout.pipeline == 1 && !is_plain)
    set("pipeline_schedule", "\"1f1b\"");
  if (layout.virtual_stages)
    set("virtual_stages", *layout.virtual_stages);
  else if (grid.virtual_stages > 1 && (layout.pipeline == 1 || !layout.schedule.empty()))
    set("virtual_stages", 0);  // automatic
  // A list of blocks fits one number of stages.
  const bool has_deck_stages = layout.pipeline == grid.pipeline_parallel &&
                               layout.schedule.empty() && !layout.virtual_stages;
  if (!grid.stage_blocks.empty() && !has_deck_stages) set("stage_blocks", "[]");
  return settings;
}

std::vector<Layout> enumerate_layouts(int64_t max_ranks, LayoutOptions options) {
  std::vector<Layout> found;
  for (int64_t ranks = 2; ranks <= max_ranks; ++ranks)
    for (int64_t pp = 1; pp <= ranks; ++pp)
      for (int64_t dp = 1; pp * dp <= ranks; ++dp) {
        if (ranks % (pp * dp) != 0) continue;
        for (int64_t stage = 0; stage <= (dp > 1 ? 3 : 0); ++stage) {
          Layout layout;
          layout.pipeline = pp;
          layout.data = dp;
          layout.tensor = ranks / (pp * dp);
          layout.zero_stage = stage;
          if (dp == 1) layout.zero_stage.reset();
          if (options == LayoutOptions::zero)
            found.push_back(layout);
          else
            add_variants(found, layout);
        }
      }
  return found;
}

std::vector<Fault> layout_faults(const Layout& layout, const std::string& deck_path,
                                 std::vector<std::string> settings, const Config& deck) {
  for (const std::string& setting : layout_settings(layout, deck)) settings.push_back(setting);
  DeckRequest request;
  request.path = deck_path;
  request.overrides = std::move(settings);
  request.ranks = layout.ranks();
  return read_deck(request).faults;
}

std::vector<std::string> first_steps_settings(const Config& deck, int64_t steps) {
  std::vector<std::string> settings = {fmt::format("run.steps={}", steps),
                                       "monitor.validation_interval=0",
                                       "checkpoint.save_final=true"};
  if (steps == deck.run.steps) return settings;
  settings.emplace_back("schedule.decay=\"constant\"");
  const int64_t warmup = deck.schedule.warmup_steps;
  if (warmup <= steps) return settings;
  // The same slope over fewer steps.
  settings.push_back(fmt::format("schedule.warmup_steps={}", steps));
  settings.push_back(fmt::format(
      "optimizer.learning_rate={}",
      deck.optimizer.learning_rate * static_cast<double>(steps) / static_cast<double>(warmup)));
  return settings;
}

}  // namespace espalier
