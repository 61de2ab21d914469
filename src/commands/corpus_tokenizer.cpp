// SPDX-License-Identifier: Apache-2.0
// espalier corpus train-tokenizer: a sentencepiece model from a sample of a corpus.
#include <filesystem>
#include <memory>

#include "commands/corpus_verbs.hpp"
#include "commands/overrides.hpp"
#include "core/clock.hpp"
#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/build/text_sample.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/tokenizer/train_sentencepiece.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {
namespace {

struct TrainArguments {
  std::string deck;
  std::vector<std::string> overrides;
  bool overwrite = false;
};

// Tokens that the sample comes to, for the report.
int64_t count_tokens(const CorpusConfig& config, const std::vector<std::string>& sample) {
  TokenizerConfig trained;
  trained.kind = TokenizerKind::sentencepiece;
  trained.path = config.train_tokenizer.output;
  const auto tokenizer = make_tokenizer(trained);
  int64_t tokens = 0;
  for (const std::string& text : sample)
    tokens += static_cast<int64_t>(tokenizer->encode(text).size());
  return tokens;
}

int train(const TrainArguments& arguments) {
  const CorpusConfig config = require_corpus_deck(arguments.deck, arguments.overrides);
  const TrainTokenizerConfig& wanted = config.train_tokenizer;
  if (wanted.output.empty())
    throw DeckError(fmt::format(
        "{}: train_tokenizer.output is missing (string); name the file of the model, for example "
        "\"tokenizer.model\"",
        arguments.deck));
  if (!arguments.overwrite && std::filesystem::exists(wanted.output))
    throw LaunchError(fmt::format(
        "{}: is there already; choose another train_tokenizer.output, or give --overwrite",
        wanted.output));
  require_writable_place(wanted.output);
  const double started = monotonic_seconds();
  std::vector<std::string> sample;
  const SampleSize size =
      draw_sample(config, [&](std::string&& text) { sample.push_back(std::move(text)); });
  info("sample: {} documents, {} of text in {}", size.documents,
       format_bytes(static_cast<double>(size.bytes)),
       format_duration(monotonic_seconds() - started));
  size_t next = 0;
  const std::string model = train_sentencepiece(wanted, [&](std::string& text) {
    if (next == sample.size()) return false;
    text = sample[next++];
    return true;
  });
  write_text_file(wanted.output, model);
  const int64_t tokens = count_tokens(config, sample);
  info("{}: {} pieces, {:.2f} bytes a token on the sample, in {}", wanted.output, wanted.vocab_size,
       static_cast<double>(size.bytes) / static_cast<double>(std::max<int64_t>(1, tokens)),
       format_duration(monotonic_seconds() - started));
  info("use it: [tokenizer] kind = \"sentencepiece\", path = \"{}\"", wanted.output);
  return static_cast<int>(ExitCode::success);
}

}  // namespace

void add_corpus_tokenizer(CLI::App& corpus, Action& action) {
  auto* verb = corpus.add_subcommand(
      "train-tokenizer", "Train a sentencepiece model on a sample of a corpus deck's sources");
  const auto arguments = std::make_shared<TrainArguments>();
  verb->add_option("deck", arguments->deck, "The corpus deck")->required()->type_name("DECK");
  add_overrides(*verb, arguments->overrides);
  verb->add_flag("--overwrite", arguments->overwrite, "Replace a model that is there");
  verb->callback([arguments, &action] { action = [arguments] { return train(*arguments); }; });
}

}  // namespace espalier
