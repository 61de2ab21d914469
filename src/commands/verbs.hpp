// SPDX-License-Identifier: Apache-2.0
// One file a verb: each adds its subcommand to the command line and leaves what is to be done in
// `action`, which main runs inside its error handling. The action returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace espalier {

using Action = std::function<int()>;

// both programs
void add_corpus(CLI::App& app, Action& action);

// espalier (no MPI, no GPU)
void add_check(CLI::App& app, Action& action);
void add_deck(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);

/// What espalier check does with a corpus deck: its faults, its files, and the pieces of work.
int check_corpus_deck(const std::string& path, const std::vector<std::string>& overrides);

// espalier-spmd (started by mpiexec, or by espalier through exec)
void add_train(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_bench_checkpoint(CLI::App& bench, Action& action);
void add_bench_corpus(CLI::App& bench, Action& action);
void add_bench_saving(CLI::App& bench, Action& action);
void add_bench_kernels(CLI::App& bench, Action& action);
void add_checkpoint(CLI::App& app, Action& action);
void add_debug(CLI::App& app, Action& action);
void add_compare(CLI::App& debug, Action& action);

}  // namespace espalier
