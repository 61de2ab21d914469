# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES agreement.cpp comm.cpp device_choice.cpp device_transfer.cpp grid.cpp io_hints.cpp
    mpi_session.cpp placement.cpp plain_file.cpp request.cpp staging_pool.cpp transport.cpp wait.cpp)
