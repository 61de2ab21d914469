// SPDX-License-Identifier: Apache-2.0
// The verbs of espalier corpus, a file or two each. Those for a team run in both programs.
#pragma once

#include <memory>
#include <string>

#include "commands/verbs.hpp"
#include "corpus/build/store_builder.hpp"
#include "corpus/build/team.hpp"

namespace espalier {

/// The processes of this program: one in espalier, all ranks in espalier-spmd.
std::unique_ptr<Team> make_team();

void add_corpus_build(CLI::App& corpus, Action& action);
void add_corpus_inspect(CLI::App& corpus, Action& action);  ///< inspect, verify, show
void add_corpus_baseline(CLI::App& corpus, Action& action);
void add_corpus_tokenizer(CLI::App& corpus, Action& action);  ///< train-tokenizer, encode, decode

/// Tables of what is in a store and of what was left out on the way: for people.
void print_store(const StoreManifest& manifest, const std::string& path);

}  // namespace espalier
