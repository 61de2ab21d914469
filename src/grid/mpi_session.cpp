// SPDX-License-Identifier: Apache-2.0
// Start and end of MPI, and the text of its errors.
#include "grid/mpi_session.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/error.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "no text";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw LaunchError(fmt::format(
      "MPI failed at {}:{} in {}: {}; see what the launcher printed, and check that all "
      "hosts of the job are up and run the same MPI library",
      file, line, call, text));
}

MpiSession::MpiSession(int& argc, char**& argv) : exceptions_at_start_(std::uncaught_exceptions()) {
  int provided = MPI_THREAD_SINGLE;
  // Multiple: a thread writes checkpoints while the main thread trains.
  ESPALIER_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw LaunchError(
        "this MPI library supports single-threaded programs only, but data is read ahead by a "
        "thread; use an MPI built with MPI_THREAD_FUNNELED or better");
  }
  allows_threads_ = provided >= MPI_THREAD_MULTIPLE;
  ESPALIER_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  ESPALIER_MPI(MPI_Get_processor_name(name, &length));
  host_.assign(name, static_cast<size_t>(length));
  MPI_Comm all = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all));
  world_ = Comm(all, "world");
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > exceptions_at_start_)
    abort(static_cast<int>(ExitCode::internal));
  world_ = Comm();  // its communicator must be freed before MPI ends
  MPI_Finalize();
}

void MpiSession::abort(int code) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // not reached; MPI_Abort is not declared noreturn
}

}  // namespace espalier
