// SPDX-License-Identifier: Apache-2.0
// Tokenizing, beside the sentencepiece library and its own program.
#include <fcntl.h>
#include <sentencepiece_processor.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>

#include "commands/corpus_bench_stages.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"

extern char** environ;

namespace espalier {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 15;  // as a build does
constexpr const char* kProgram = "spm_encode";

struct NamedTokenizer {
  std::string name;
  TokenizerConfig config;
  std::shared_ptr<const Tokenizer> tokenizer;
};

TokenizerConfig parse_tokenizer(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string kind = text.substr(0, equals);
  TokenizerConfig config;
  if (kind == "sentencepiece") config.kind = TokenizerKind::sentencepiece;
  if (kind == "gpt2") config.kind = TokenizerKind::gpt2;
  if (kind == "huggingface") config.kind = TokenizerKind::huggingface;
  if (equals == std::string::npos || config.kind == TokenizerKind::bytes)
    throw DeckError(fmt::format(
        "bench corpus: --tokenizer {} is not KIND=PATH; write sentencepiece=FILE.model, "
        "gpt2=FOLDER or huggingface=tokenizer.json",
        text));
  config.path = text.substr(equals + 1);
  return config;
}

std::vector<NamedTokenizer> open_tokenizers(const TokenizerConfig& deck,
                                            const std::vector<std::string>& wanted) {
  std::vector<NamedTokenizer> list;
  const auto add = [&](const std::string& name, const TokenizerConfig& config) {
    list.push_back({name, config, make_tokenizer(config)});
  };
  add("bytes", {});
  if (deck.kind != TokenizerKind::bytes) add("deck's " + make_tokenizer(deck)->name(), deck);
  for (const std::string& text : wanted) add(text, parse_tokenizer(text));
  // Names in a table: the kind and the last part of the path.
  for (NamedTokenizer& one : list) {
    const size_t equals = one.name.find('=');
    if (equals == std::string::npos) continue;
    std::string path = one.config.path;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    one.name = one.name.substr(0, equals + 1) + std::filesystem::path(path).filename().string();
  }
  return list;
}

int64_t encode_all(const Tokenizer& tokenizer, const BenchText& text) {
  std::vector<int32_t> tokens;
  int64_t count = 0;
  text.for_each([&](const std::string& document) {
    for (std::string_view rest = document; !rest.empty();) {
      const std::string_view part = rest.substr(0, tokenizer.piece_end(rest, kPieceBytes));
      rest.remove_prefix(part.size());
      tokens.clear();
      tokenizer.append_tokens(part, tokens);
      count += static_cast<int64_t>(tokens.size());
    }
  });
  return count;
}

std::string find_program() {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string file = std::string(rest.substr(0, colon)) + "/" + kProgram;
    if (colon > 0 && ::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {};
}

// spm_encode --model=MODEL --output_format=id < INPUT > /dev/null
void run_program(const std::string& program, const std::string& model, const std::string& input) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  std::string words[] = {program, "--model=" + model, "--output_format=id"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int code = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (code == 0)
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  if (code != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw LaunchError(
        fmt::format("{} --model={} failed; run it by hand on {} to see why, or take "
                    "it off PATH",
                    program, model, input));
}

/// The library, line by line as spm_encode goes.
std::function<void()> library_of(const std::string& model, const BenchText& text) {
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  if (const auto status = processor->Load(model); !status.ok())
    throw DataError(fmt::format("{}: {}", model, status.ToString()));
  return [processor, &text] {
    text.for_each([&](const std::string& document) {
      for (std::string_view rest = document; !rest.empty();) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        std::vector<int> ids;
        processor->Encode({rest.data(), end}, &ids).IgnoreError();
        rest.remove_prefix(std::min(end + 1, rest.size()));
      }
    });
  };
}

// The rows of the program without what it takes to start.
void take_off_start(std::vector<BenchRow>& rows, std::vector<std::string>& notes) {
  std::vector<BenchRow> kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].bytes > 0) {
      kept.push_back(std::move(rows[i]));
      continue;
    }
    // The start stands right before the row that it belongs to.
    BenchRow encode = rows[i + 1];
    Lap least = rows[i].laps.front();
    for (const Lap& lap : rows[i].laps)
      least = {std::min(least.wall, lap.wall), std::min(least.cpu, lap.cpu)};
    notes.push_back(fmt::format("{}: {} of CPU time to start (an empty file), taken off below",
                                encode.name, format_duration(least.cpu)));
    for (Lap& lap : encode.laps) lap = {lap.wall - least.wall, lap.cpu - least.cpu};
    encode.name += ", its start taken off";
    kept.push_back(std::move(encode));
  }
  rows = std::move(kept);
}

}  // namespace

std::vector<BenchRow> bench_tokenizing(const BenchPlace& place,
                                       const std::vector<std::string>& tokenizers,
                                       std::vector<std::string>& notes) {
  const std::vector<NamedTokenizer> list = open_tokenizers(place.config.tokenizer, tokenizers);
  const std::string program = find_program(), input = place.folder + "/lines.txt";
  const std::string empty = place.folder + "/empty.txt";
  std::vector<BenchStage> stages;
  std::string against;  // the first model's program: other kinds of tokenizers are held against it
  const int64_t bytes = place.text.bytes;
  for (const NamedTokenizer& one : list) {
    if (one.config.kind != TokenizerKind::sentencepiece) continue;
    const std::string model = one.config.path, name = fmt::format("{} {}", kProgram, one.name);
    stages.push_back({"library, by lines, " + one.name, bytes, library_of(model, place.text), ""});
    if (program.empty()) continue;
    stages.push_back({name + ", start", 0, [=] { run_program(program, model, empty); }, ""});
    stages.push_back({name, bytes, [=] { run_program(program, model, input); }, ""});
    if (against.empty()) against = name + ", its start taken off";
  }
  if (!against.empty()) {
    std::string lines;
    place.text.for_each([&](const std::string& document) { lines += document + "\n"; });
    write_text_file(input, lines);
    write_text_file(empty, "");
  } else if (program.empty()) {
    notes.push_back("spm_encode is not on PATH (package sentencepiece): no comparison with it");
  }
  for (const NamedTokenizer& one : list) {
    const int64_t tokens = encode_all(*one.tokenizer, place.text);
    notes.push_back(fmt::format("{}: {} ids, {:.2f} bytes of text a token", one.name,
                                one.tokenizer->vocab_size(),
                                static_cast<double>(bytes) / static_cast<double>(tokens)));
    const bool own = one.config.kind == TokenizerKind::sentencepiece && !program.empty();
    stages.push_back(
        {one.name, bytes, [&place, t = one.tokenizer] { encode_all(*t, place.text); },
         own ? fmt::format("{} {}, its start taken off", kProgram, one.name) : against});
  }
  std::vector<BenchRow> rows = measure_stages("tokenizing", BenchClock::cpu, place.repeats, stages);
  take_off_start(rows, notes);
  return rows;
}

}  // namespace espalier
