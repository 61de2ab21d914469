# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES comm.cpp grid.cpp mpi_session.cpp request.cpp wait.cpp)
