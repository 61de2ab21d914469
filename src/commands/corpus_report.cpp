// SPDX-License-Identifier: Apache-2.0
// A store as tables: what is in it, and what was left out on the way.
#include "commands/corpus_verbs.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/clean/cleaner.hpp"
#include "corpus/source/input_faults.hpp"
#include "corpus/store/store_reader.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostPlaces = 1000;

std::string bytes_text(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

void print_step(const char* name, const StepCount& step) {
  if (step.changed == 0 && step.dropped == 0) return;
  std::string text = fmt::format("  {:<18}", name);
  if (step.changed > 0) text += fmt::format(" changed {}", step.changed);
  if (step.dropped > 0)
    text += fmt::format(" dropped {} ({})", step.dropped, bytes_text(step.dropped_bytes));
  info("{}", text);
}

void print_cleaning(const nlohmann::json& sources) {
  CleanCounts cleaning;
  int64_t read = 0, bytes = 0, exact = 0, near = 0, duplicate_bytes = 0;
  for (const auto& source : sources) {
    cleaning.add(CleanCounts::from_json(source.at("cleaning")));
    read += source.at("documents_read").get<int64_t>();
    bytes += source.at("text_bytes_read").get<int64_t>();
    exact += source.at("duplicates").at("exact").get<int64_t>();
    near += source.at("duplicates").at("near").get<int64_t>();
    duplicate_bytes += source.at("duplicates").at("bytes").get<int64_t>();
  }
  info("read: {} documents, {} of text", read, bytes_text(bytes));
  for (int i = 0; i < kCleanSteps; ++i)
    print_step(clean_step_name(static_cast<CleanStep>(i)), cleaning.steps[static_cast<size_t>(i)]);
  if (exact + near > 0)
    info("  {:<18} dropped {} equal and {} nearly equal ({})", "duplicates", exact, near,
         bytes_text(duplicate_bytes));
}

void print_faults(const nlohmann::json& sources) {
  InputFaults faults(kMostPlaces);
  for (const auto& source : sources)
    faults.append(InputFaults::from_json(source.at("faults"), kMostPlaces));
  for (int i = 0; i < kFaultKinds; ++i) {
    const auto kind = static_cast<FaultKind>(i);
    if (faults.count(kind) == 0) continue;
    warn("{}: {}", fault_name(kind), faults.count(kind));
    for (const FaultPlace& place : faults.places(kind))
      print_line(fmt::format("    {}{}: {}", place.path,
                             place.line > 0 ? fmt::format(":{}", place.line) : "", place.what));
    const auto shown = static_cast<int64_t>(faults.places(kind).size());
    if (shown > 0 && shown < faults.count(kind))
      print_line(fmt::format("    and {} more", faults.count(kind) - shown));
  }
}

}  // namespace

void print_store(const StoreManifest& manifest, const std::string& path) {
  info("{}", path);
  std::string text = describe_store(manifest);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  print_line(text);
  const auto sources = manifest.details.find("sources");
  if (sources == manifest.details.end()) return;
  try {
    print_cleaning(*sources);
    print_faults(*sources);
  } catch (const nlohmann::json::exception&) {
    info("the counts of the build are of another release");
  }
}

}  // namespace espalier
