# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES comm.cpp grid.cpp mpi_session.cpp placement.cpp request.cpp wait.cpp)
