// SPDX-License-Identifier: Apache-2.0
// The front program: does what needs neither MPI nor a GPU, and becomes espalier-spmd, by exec, for
// every other verb. `mpiexec espalier train` therefore works as well.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "commands/spmd_program.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/output.hpp"
#include "deck/guess.hpp"

namespace espalier {
namespace {

struct SpmdVerb {
  const char* name;
  const char* help;
};

// The verbs of espalier-spmd, for help and guesses.
constexpr SpmdVerb kSpmdVerbs[] = {
    {"train", "Train the model of a deck; start it with mpiexec for several ranks"},
    {"generate", "Continue a prompt with the model of a run"},
    {"bench", "Measure a training step, matrix products and the like"},
    {"checkpoint", "List, inspect, verify, compare and prune the checkpoints of a run"},
    {"debug", "Dump gradients and compare runs"},
};

bool is_spmd_verb(const std::string& word) {
  for (const SpmdVerb& verb : kSpmdVerbs)
    if (word == verb.name) return true;
  return false;
}

// What launchers tell the processes that they start: MPICH, PMIx (Open MPI, Slurm), Open MPI,
// Slurm's srun, Cray's PALS, Flux.
constexpr const char* kLauncherSizes[] = {"PMI_SIZE",
                                          "OMPI_COMM_WORLD_SIZE",
                                          "MPI_LOCALNRANKS",
                                          "MV2_COMM_WORLD_SIZE",
                                          "SLURM_STEP_NUM_TASKS",
                                          "PALS_LOCAL_SIZE",
                                          "FLUX_JOB_SIZE",
                                          "PMIX_SIZE"};

bool is_one_of_several() {
  for (const char* name : kLauncherSizes) {
    const char* const size = std::getenv(name);
    if (size != nullptr && std::atoll(size) > 1) return true;
  }
  return false;
}

// Verbs of espalier corpus that several processes share, which only espalier-spmd can.
bool is_team_work(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "corpus" || !is_one_of_several()) return false;
  const std::string verb = argv[2];
  return verb == "build" || verb == "verify";
}

/// Replaces this process by espalier-spmd with the same arguments. Throws if it cannot.
[[noreturn]] void become_spmd(char** argv) {
  const std::string beside = spmd_beside();
  if (!beside.empty()) {
    ::execv(beside.c_str(), argv);
    throw LaunchError(
        fmt::format("cannot start {} ({}); rebuild or reinstall it", beside, std::strerror(errno)));
  }
  ::execvp(kSpmdProgram, argv);
  const std::string folder = program_folder();
  throw LaunchError(fmt::format(
      "cannot start {} ({}): it lies neither in {} nor in PATH; build it (target {}) or put both "
      "programs into one folder",
      kSpmdProgram, std::strerror(errno), folder.empty() ? "the folder of espalier" : folder,
      kSpmdProgram));
}

std::string spmd_help() {
  std::string text =
      "\nVerbs of espalier-spmd, which espalier starts (on several ranks: mpiexec):\n";
  for (const SpmdVerb& verb : kSpmdVerbs) text += fmt::format("  {:<28}{}\n", verb.name, verb.help);
  return text + "\nespalier VERB --help tells more. Exit codes: docs/exit-codes.md.";
}

// Throws for a word that is no verb, with a guess at what was meant.
void check_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  for (const SpmdVerb& verb : kSpmdVerbs) verbs.push_back(verb.name);
  if (std::find(verbs.begin(), verbs.end(), word) != verbs.end()) return;
  const std::string guess = nearest_word(word, verbs);
  throw DeckError(fmt::format("there is no verb {}; {}", word,
                              guess.empty() ? fmt::format("choose {}", fmt::join(verbs, ", "))
                                            : fmt::format("did you mean {}?", guess)));
}

int run(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  if (is_spmd_verb(word) || is_team_work(argc, argv)) become_spmd(argv);
  CLI::App app("Trains large language models on a Cartesian grid of MPI ranks.", "espalier");
  app.set_version_flag("--version", "espalier " ESPALIER_VERSION);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  Action action;
  add_check(app, action);
  add_deck(app, action);
  add_plan(app, action);
  add_corpus(app, action);
  add_report(app, action);
  add_validate(app, action);
  app.footer(spmd_help());  // after the verbs, which would inherit it
  if (!word.empty() && word[0] != '-') check_verb(app, word);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::success)
                                : static_cast<int>(ExitCode::deck);
  }
  const int code = action();
  if (code == 0 && has_output_failed())
    throw LaunchError("cannot write to standard output; is the disk full or the pipe closed?");
  return code;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  using espalier::ExitCode;
  try {
    return espalier::run(argc, argv);
  } catch (const espalier::Error& error) {
    espalier::print_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    espalier::print_error("out of memory; run it on a node with more, or close other programs");
    return static_cast<int>(ExitCode::launch);
  } catch (const std::exception& error) {
    espalier::print_error(fmt::format("{} (unexpected; please report it)", error.what()));
    return static_cast<int>(ExitCode::internal);
  }
}
