// SPDX-License-Identifier: Apache-2.0
// espalier deck: the reference of all keys, and the effective form of a deck.
#include "deck/deck.hpp"

#include <cstdio>
#include <memory>

#include "commands/overrides.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "deck/corpus_deck.hpp"

namespace espalier {
namespace {

struct DeckVerb {
  std::string section;
  bool markdown = false, is_corpus = false;
  DeckRequest effective;
};

// Texts of many lines that end with a newline of their own.
void put(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw LaunchError("cannot write to standard output; is the disk full or the pipe closed?");
}

int run(const DeckVerb& verb) {
  if (!verb.effective.path.empty())
    put(effective_deck(require_deck(verb.effective)));
  else if (verb.is_corpus)
    put(verb.markdown ? corpus_deck_reference_markdown() : corpus_deck_reference());
  else
    put(verb.markdown ? deck_reference_markdown() : deck_reference(verb.section));
  return static_cast<int>(ExitCode::success);
}

}  // namespace

void add_deck(CLI::App& app, Action& action) {
  const auto request = std::make_shared<DeckVerb>();
  CLI::App* verb = app.add_subcommand("deck", "Print the reference of all deck keys");
  CLI::Option* section = verb->add_option("SECTION", request->section, "Only this section");
  CLI::Option* markdown =
      verb->add_flag("--markdown", request->markdown, "Print docs/deck.md")->excludes(section);
  CLI::Option* corpus =
      verb->add_flag("--corpus", request->is_corpus,
                     "The keys of corpus decks; with --markdown docs/corpus-deck.md")
          ->excludes(section);
  CLI::Option* effective =
      verb->add_option("--effective", request->effective.path,
                       "Print this deck with every key and the origin of its value")
          ->excludes(section)
          ->excludes(markdown)
          ->excludes(corpus);
  add_overrides(*verb, request->effective.overrides)->needs(effective);
  verb->callback([request, &action] { action = [request] { return run(*request); }; });
}

}  // namespace espalier
