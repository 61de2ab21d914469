// SPDX-License-Identifier: Apache-2.0
// Private to this room: the one place where an MPI return code becomes an error.
#pragma once

namespace espalier {

/// Throws LaunchError with MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call, const char* file, int line);

}  // namespace espalier

/// Every MPI call of this room goes through here; communicators carry MPI_ERRORS_RETURN.
#define ESPALIER_MPI(call) ::espalier::check_mpi((call), #call, __FILE__, __LINE__)
