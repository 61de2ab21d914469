# SPDX-License-Identifier: Apache-2.0
# The front door must load on a login node: fails when PROGRAM needs MPI, CUDA or Kokkos at load
# time. With EXPECT=fail it demands that fault (the negative control, on espalier-spmd).
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM} RESOLVED_DEPENDENCIES_VAR found
     UNRESOLVED_DEPENDENCIES_VAR missing)
list(LENGTH found count)
if(count EQUAL 0)
  message(FATAL_ERROR "${PROGRAM}: no shared library was listed, so nothing was checked")
endif()
set(forbidden ${found} ${missing})
list(FILTER forbidden INCLUDE REGEX "/?lib(mpi|mpich|open-|cuda|cublas|nccl|hdf5|kokkos)[^/]*$")
if(EXPECT STREQUAL "fail" AND NOT forbidden)
  message(FATAL_ERROR "negative control: ${PROGRAM} links MPI, but the check did not see it")
elseif(NOT EXPECT STREQUAL "fail" AND forbidden)
  message(FATAL_ERROR "${PROGRAM} needs ${forbidden}; the front door may link neither MPI nor CUDA "
                      "(see src/commands/CMakeLists.txt)")
endif()
