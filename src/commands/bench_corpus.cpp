// SPDX-License-Identifier: Apache-2.0
// espalier bench corpus: MB/s a core of each stage of building a corpus.
#include <memory>

#include "commands/corpus_bench.hpp"
#include "commands/corpus_verbs.hpp"
#include "commands/overrides.hpp"
#include "commands/verbs.hpp"

namespace espalier {

void add_bench_corpus(CLI::App& bench, Action& action) {
  const auto r = std::make_shared<CorpusBench>();
  CLI::App* verb = bench.add_subcommand(
      "corpus", "Each stage of building a corpus, MB/s of text a core; mpiexec for whole builds");
  verb->add_option("DECK", r->deck, "The corpus deck")->required();
  add_overrides(*verb, r->overrides);
  verb->add_option("--mib", r->mib, "MiB of text for the stages (default 32)")
      ->check(CLI::Range(0.001, 1024.0));
  verb->add_option("--build-mib", r->build_mib, "MiB of text for whole builds (default 256)")
      ->check(CLI::Range(0.001, 1048576.0));
  verb->add_option("--folder", r->folder, "Where to write; nothing stays there (default: here)")
      ->check(CLI::ExistingDirectory);
  verb->add_option("--repeats", r->repeats, "Runs of each stage (default 5)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--seq-length", r->seq_length, "Tokens of a sequence (default 1024)")
      ->check(CLI::Range(8, 1 << 20));
  verb->add_option("--tokenizer", r->tokenizers,
                   "KIND=PATH: sentencepiece=FILE.model, gpt2=FOLDER or huggingface=FILE.json, "
                   "beside bytes and the deck's own")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--json", r->json, "Write the figures to this file");
  verb->callback([r, &action] {
    action = [r] {
      const auto team = make_team();
      return run_corpus_bench(*r, *team);
    };
  });
}

}  // namespace espalier
