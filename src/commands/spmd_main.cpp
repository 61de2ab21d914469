// SPDX-License-Identifier: Apache-2.0
// espalier-spmd: the verbs that compute, started by mpiexec or by espalier through exec.
#include <CLI/CLI.hpp>
#include <chrono>
#include <new>
#include <thread>

#include "commands/compute_session.hpp"
#include "commands/spmd_context.hpp"
#include "commands/stop_request.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/output.hpp"
#include "core/test_hooks.hpp"

namespace espalier {
namespace {

MpiSession* the_session = nullptr;
ComputeSession* the_compute_session = nullptr;

// An error of one rank, or one that may be: it says who it is and takes the job down. Where all
// ranks meet the same error (a missing file), rank 0 speaks for all: the others give it a second.
[[noreturn]] void abort_job(ExitCode code, const std::string& what) {
  using std::chrono::milliseconds;
  if (the_session->rank() != 0) std::this_thread::sleep_for(milliseconds(1000));
  print_error(fmt::format("{}: {}", rank_name(), what));
  // The launcher drops output that it has not yet read when the job ends.
  std::this_thread::sleep_for(milliseconds(200));
  MpiSession::abort(static_cast<int>(code));
}

// Faults of deck, command line and launch, and losses that are not finite, are the same on every
// rank: rank 0 prints, all leave in good order.
bool is_same_on_all_ranks(ExitCode code) {
  return code == ExitCode::deck || code == ExitCode::launch || code == ExitCode::numerical;
}

int run_action(const Action& action) {
  try {
    const int code = action();
    if (code == 0 && has_output_failed())
      throw LaunchError("cannot write to standard output; is the disk full or the pipe closed?");
    return code;
  } catch (const MemoryError& e) {
    abort_job(e.code(), e.what());
  } catch (const Error& e) {
    if (!is_same_on_all_ranks(e.code()) && the_session->size() > 1) abort_job(e.code(), e.what());
    if (the_session->rank() == 0) print_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    abort_job(ExitCode::launch,
              "out of memory; compare espalier plan with what a rank has, and use fewer ranks a "
              "node or a smaller batch.micro_batch_size");
  } catch (const std::exception& e) {
    abort_job(ExitCode::internal, e.what());
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Espalier trains large language models on a grid of MPI ranks.", "espalier");
  app.require_subcommand(1);
  Action action;
  add_train(app, action);
  add_generate(app, action);
  add_bench(app, action);
  add_checkpoint(app, action);
  add_debug(app, action);
  add_corpus(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (the_session->rank() != 0)
      return e.get_exit_code() == 0 ? 0 : static_cast<int>(ExitCode::deck);
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::deck);
  }
  if (!app.got_subcommand("train")) release_stop_signals();
  return run_action(action);
}

}  // namespace

MpiSession& mpi_session() {
  return *the_session;
}

ComputeSession& compute_session() {
  return *the_compute_session;
}

}  // namespace espalier

int main(int argc, char** argv) {
  using namespace espalier;
  hold_stop_signals();
  try {
    MpiSession session(argc, argv);
    the_session = &session;
    set_speaking(session.rank() == 0);
    set_test_rank(session.rank());
    ComputeSession compute(session, argc, argv);
    the_compute_session = &compute;
    return parse_and_run(argc, argv);
  } catch (const Error& e) {
    print_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    print_error(e.what());
    return static_cast<int>(ExitCode::internal);
  }
}
