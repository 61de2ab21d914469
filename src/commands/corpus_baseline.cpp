// SPDX-License-Identifier: Apache-2.0
// espalier corpus baseline: unigram and bigram models of held-out text.
#include "corpus/bigram_baseline.hpp"

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands/corpus_verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

nlohmann::json to_json(const BaselineScore& score) {
  return {{"nats_per_token", score.nats_per_token},
          {"bits_per_byte", score.bits_per_byte},
          {"concentration", score.concentration}};
}

void write_json(const BaselineRequest& request, const BaselineReport& report,
                const std::string& path) {
  const nlohmann::json json = {{"train", request.train},
                               {"validation", request.validation},
                               {"tokenizer", report.tokenizer},
                               {"vocab_size", report.vocab_size},
                               {"train_predictions", report.train_predictions},
                               {"scored_predictions", report.scored_predictions},
                               {"scored_bytes", report.scored_bytes},
                               {"unigram", to_json(report.unigram)},
                               {"bigram", to_json(report.bigram)}};
  std::ofstream out(path);
  // Paths may hold any bytes; JSON may not.
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) throw DataError(fmt::format("{}: cannot be written; check the folder and disk", path));
}

int baseline(const BaselineRequest& request, const std::string& json_path) {
  const BaselineReport report = score_baseline(request);
  info("{} predictions counted in training text, {} scored in held-out text",
       report.train_predictions, report.scored_predictions);
  info("unigram: {:.6f} nats/token, {:.4f} bits/byte", report.unigram.nats_per_token,
       report.unigram.bits_per_byte);
  info("bigram:  {:.6f} nats/token, {:.4f} bits/byte", report.bigram.nats_per_token,
       report.bigram.bits_per_byte);
  if (!json_path.empty()) write_json(request, report, json_path);
  return static_cast<int>(ExitCode::success);
}

void take_deck(BaselineRequest& request, const std::string& path) {
  DeckRequest deck;
  deck.path = path;
  request.run = require_deck(deck).config;
  request.train = request.run->data.train;
  request.validation = request.run->data.validation;
}

}  // namespace

void add_corpus_baseline(CLI::App& corpus, Action& action) {
  struct Arguments {
    BaselineRequest request;
    std::string deck, json;
  };
  auto* verb = corpus.add_subcommand(
      "baseline", "Held-out cross-entropy of unigram and bigram models: what a model must beat");
  auto arguments = std::make_shared<Arguments>();
  BaselineRequest& request = arguments->request;
  auto* train = verb->add_option("--train", request.train, "Token stores and files to count");
  auto* validation =
      verb->add_option("--validation", request.validation, "Token stores and files to score");
  train->needs(validation);
  validation->needs(train);
  verb->add_option("--deck", arguments->deck,
                   "Both from a training deck, and score just what its runs validate on")
      ->type_name("DECK")
      ->excludes(train)
      ->excludes(validation);
  verb->add_option("--json", arguments->json, "Write the numbers there too")->type_name("FILE");
  verb->callback([arguments, &action] {
    action = [arguments] {
      if (!arguments->deck.empty()) take_deck(arguments->request, arguments->deck);
      return baseline(arguments->request, arguments->json);
    };
  });
}

}  // namespace espalier
