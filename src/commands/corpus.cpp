// SPDX-License-Identifier: Apache-2.0
// espalier corpus: token stores from text, and what is in them.
#include "commands/corpus_verbs.hpp"

namespace espalier {

void add_corpus(CLI::App& app, Action& action) {
  auto* corpus = app.add_subcommand("corpus", "Build and examine token stores");
  corpus->require_subcommand(1);
  add_corpus_build(*corpus, action);
  add_corpus_inspect(*corpus, action);
  add_corpus_baseline(*corpus, action);
  add_corpus_tokenizer(*corpus, action);
}

}  // namespace espalier
