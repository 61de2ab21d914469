// SPDX-License-Identifier: Apache-2.0
// espalier-spmd: the verbs that compute, started by mpiexec or by espalier through exec.
#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>

#include "commands/spmd_context.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "tensor/gemm.hpp"
#include "tensor/views.hpp"

namespace espalier {
namespace {

MpiSession* the_session = nullptr;

// Faults of deck, command line and launch, and losses that are not finite, are the same on every
// rank: rank 0 prints, all leave in good order. Anything else may be one rank's own: it says who it
// is and takes the job down.
int run_action(const Action& action) {
  try {
    return action();
  } catch (const Error& e) {
    const bool everywhere = e.code() == ExitCode::deck || e.code() == ExitCode::launch ||
                            e.code() == ExitCode::numerical;
    if (everywhere || the_session->size() == 1) {
      if (the_session->rank() == 0) print_error(e.what());
      return static_cast<int>(e.code());
    }
    print_error(
        fmt::format("rank {} on {}: {}", the_session->rank(), the_session->host(), e.what()));
    MpiSession::abort(static_cast<int>(e.code()));
  } catch (const std::exception& e) {
    print_error(
        fmt::format("rank {} on {}: {}", the_session->rank(), the_session->host(), e.what()));
    MpiSession::abort(static_cast<int>(ExitCode::internal));
  }
  return static_cast<int>(ExitCode::internal);
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Espalier trains large language models on a grid of MPI ranks.", "espalier");
  app.require_subcommand(1);
  Action action;
  add_train(app, action);
  add_generate(app, action);
  add_bench(app, action);
  add_debug(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (the_session->rank() != 0)
      return e.get_exit_code() == 0 ? 0 : static_cast<int>(ExitCode::deck);
    return app.exit(e) == 0 ? 0 : static_cast<int>(ExitCode::deck);
  }
  return run_action(action);
}

}  // namespace

MpiSession& mpi_session() {
  return *the_session;
}

}  // namespace espalier

int main(int argc, char** argv) {
  using namespace espalier;
  try {
    MpiSession session(argc, argv);
    the_session = &session;
    set_speaking(session.rank() == 0);
    Kokkos::ScopeGuard kokkos(argc, argv);
    set_gemm_threads(Exec::concurrency());
    return parse_and_run(argc, argv);
  } catch (const Error& e) {
    print_error(e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    print_error(e.what());
    return static_cast<int>(ExitCode::internal);
  }
}
