// SPDX-License-Identifier: Apache-2.0
// espalier check on a corpus deck: its faults, its files, and what a build would do with them.
#include <cstdio>

#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/build/build_plan.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/utf8.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {
namespace {

constexpr size_t kMostFiles = 20;  // listed of a source

const char* format_name(SourceFormat format) {
  switch (format) {
    case SourceFormat::jsonl: return "jsonl";
    case SourceFormat::html: return "html";
    default: return "text";
  }
}

std::string bytes_text(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string count_text(int64_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

void print_source(const BuildPlan& plan, size_t i) {
  const std::vector<InputFile>& files = plan.files[i];
  int64_t bytes = 0;
  for (const InputFile& file : files) bytes += file.bytes;
  info("source {}: {}, {}, {}", plan.config.sources[i].name,
       count_text(static_cast<int64_t>(files.size()), "file"), bytes_text(bytes),
       count_text(plan.first_piece[i + 1] - plan.first_piece[i], "piece"));
  for (size_t f = 0; f < files.size() && f < kMostFiles; ++f)
    print_line(fmt::format(
        "    {} ({}{}{}, {})", printable_text(files[f].path), format_name(files[f].format),
        files[f].compression == Compression::none ? "" : " in ",
        files[f].compression == Compression::none ? "" : compression_name(files[f].compression),
        bytes_text(files[f].bytes)));
  if (files.size() > kMostFiles)
    print_line(fmt::format("    and {} more", files.size() - kMostFiles));
}

}  // namespace

int check_corpus_deck(const std::string& path, const std::vector<std::string>& overrides) {
  const CorpusDeckResult result = read_corpus_deck(path, overrides);
  for (const Fault& warning : result.warnings) print_warning(warning.text());
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", fault_list(result.faults).c_str());
    return static_cast<int>(ExitCode::deck);
  }
  const CorpusConfig& config = result.config;
  const auto tokenizer = make_tokenizer(config.tokenizer);
  const BuildPlan plan = make_build_plan(config, tokenizer->name());
  info("corpus deck  {}", config.deck_path);
  info("store        {}",
       config.build.output.empty() ? "(build.output is not given)" : config.build.output);
  info("tokenizer    {}, vocab_size {}", tokenizer->name(), tokenizer->vocab_size());
  for (size_t i = 0; i < plan.files.size(); ++i) print_source(plan, i);
  info(
      "in all       {} on the disk in {} of about {:g} MiB; more processes than pieces have "
      "nothing to do",
      bytes_text(plan.bytes()), count_text(static_cast<int64_t>(plan.pieces.size()), "piece"),
      config.build.shard_mib);
  const size_t warnings = result.warnings.size();
  info("no faults{}", warnings == 0 ? std::string()
                                    : ", " + count_text(static_cast<int64_t>(warnings), "warning"));
  return static_cast<int>(ExitCode::success);
}

}  // namespace espalier
