// SPDX-License-Identifier: Apache-2.0
// espalier corpus build: token stores from text.
#include <algorithm>
#include <memory>

#include "commands/corpus_progress.hpp"
#include "commands/corpus_verbs.hpp"
#include "commands/overrides.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {
namespace {

struct BuildArguments {
  std::vector<std::string> inputs;  // a deck, or text files with --out
  std::vector<std::string> overrides;
  bool overwrite = false;
  std::string out, language;
  double held_out = 0.0;
  int64_t document_bytes = 0, seed = 1;
};

// The deck that --out and its company stand for.
CorpusConfig plain_config(const BuildArguments& arguments) {
  if (!arguments.overrides.empty())
    throw DeckError("corpus build: --set goes with a deck; with --out give the options themselves");
  CorpusConfig config;
  config.deck_path = "command line";
  config.build.output = arguments.out;
  if (!(arguments.held_out >= 0.0 && arguments.held_out < 1.0))
    throw DeckError(
        fmt::format("corpus build: --held-out {} is outside [0, 1); try 0.05", arguments.held_out));
  config.build.held_out = arguments.held_out;
  config.build.seed = arguments.seed;
  SourceConfig source;
  source.name = "text";
  source.paths = arguments.inputs;
  source.language = arguments.language;
  if (arguments.document_bytes != 0) {
    source.documents = DocumentCut::size;
    source.document_bytes = arguments.document_bytes;
  }
  config.sources.push_back(std::move(source));
  const std::vector<Fault> faults = corpus_faults(config);
  if (!faults.empty()) throw DeckError(fault_list(faults));
  return config;
}

CorpusConfig deck_config(const BuildArguments& arguments) {
  if (arguments.inputs.size() != 1)
    throw DeckError(
        fmt::format("corpus build: {} files without --out; name one corpus deck, or give --out "
                    "STORE with text files",
                    arguments.inputs.size()));
  CorpusConfig config = require_corpus_deck(arguments.inputs.front(), arguments.overrides);
  if (config.build.output.empty())
    throw DeckError(
        fmt::format("{}: build.output is missing (string); name the folder of the store",
                    arguments.inputs.front()));
  return config;
}

int build(const BuildArguments& arguments) {
  BuildRequest request;
  request.config = arguments.out.empty() ? deck_config(arguments) : plain_config(arguments);
  request.may_replace = arguments.overwrite;
  const auto tokenizer = make_tokenizer(request.config.tokenizer);
  const auto team = make_team();
  BuildDisplay display;
  request.progress = [&](const BuildProgress& progress) { display.update(progress); };
  const BuildReport report = build_store(request, *tokenizer, *team);
  display.clear();
  if (!team->leads()) return static_cast<int>(ExitCode::success);
  print_store(report.manifest, request.config.build.output);
  if (report.pieces_found > 0)
    info("went on with an unfinished build: {} of {} pieces were there", report.pieces_found,
         report.pieces);
  info("{}: built by {} process{} in {}, {:.1f} MB/s of text", request.config.build.output,
       team->size(), team->size() == 1 ? "" : "es", format_duration(report.seconds),
       static_cast<double>(report.text_bytes) * 1e-6 / report.seconds);
  return static_cast<int>(ExitCode::success);
}

}  // namespace

void add_corpus_build(CLI::App& corpus, Action& action) {
  auto* verb = corpus.add_subcommand(
      "build", "Make a token store by a corpus deck, or of plain text files; mpiexec for several");
  const auto arguments = std::make_shared<BuildArguments>();
  verb->add_option("inputs", arguments->inputs, "The corpus deck; with --out text files instead")
      ->required()
      ->type_name("DECK");
  add_overrides(*verb, arguments->overrides);
  verb->add_flag("--overwrite", arguments->overwrite,
                 "Replace a store that is there, and drop an unfinished build of another");
  auto* out = verb->add_option("--out", arguments->out, "Without a deck: folder of the store")
                  ->type_name("STORE");
  verb->add_option("--held-out", arguments->held_out,
                   "Share of the documents kept for validation, by the hash of their text")
      ->type_name("FRACTION")
      ->needs(out);
  verb->add_option("--document-bytes", arguments->document_bytes,
                   "Cut files into documents of at most N bytes; default: a file is a document")
      ->type_name("N")
      ->needs(out);
  verb->add_option("--seed", arguments->seed, "Of the held-out choice")
      ->capture_default_str()
      ->needs(out);
  verb->add_option("--language", arguments->language, "Language tag of the text")
      ->type_name("TAG")
      ->needs(out);
  verb->callback([arguments, &action] { action = [arguments] { return build(*arguments); }; });
}

}  // namespace espalier
