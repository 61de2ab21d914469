# SPDX-License-Identifier: Apache-2.0
# Reads the site facts of Makefile.inc; included before project(), since compilers are among them.
# Who wins: -D on the command line, then the environment, then Makefile.inc. Empty: CMake searches.
set(_site_file ${CMAKE_CURRENT_LIST_DIR}/../Makefile.inc)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_site_file})
file(STRINGS ${_site_file} _site_lines REGEX "^[A-Za-z_][A-Za-z0-9_]*=")
foreach(_line IN LISTS _site_lines)
  string(FIND "${_line}" "=" _at)
  string(SUBSTRING "${_line}" 0 ${_at} _name)
  math(EXPR _at "${_at} + 1")
  string(SUBSTRING "${_line}" ${_at} -1 _value)
  if(DEFINED ENV{${_name}})
    set(_value "$ENV{${_name}}")
  endif()
  set(ESPALIER_SITE_${_name} "${_value}")
endforeach()

# espalier_site(VARIABLE NAME): VARIABLE takes the site's NAME unless -D or an earlier run set it.
# espalier_site(VARIABLE NAME PROGRAM): the same for a program, which must exist.
function(espalier_site variable name)
  set(value "${ESPALIER_SITE_${name}}")
  if(DEFINED ${variable} OR value STREQUAL "")
    return()
  endif()
  if(ARGV2 STREQUAL "PROGRAM")
    unset(_espalier_program CACHE)
    find_program(_espalier_program NAMES ${value} NO_CACHE)
    if(NOT _espalier_program)
      message(FATAL_ERROR
        "${name} = ${value} (from Makefile.inc or the environment) is not a program here. On Debian "
        "`make setup` installs it; elsewhere set ${name} in Makefile.inc to this site's name or "
        "path, or leave it empty to let CMake search.")
    endif()
    set(value ${_espalier_program})
  endif()
  set(${variable} "${value}" CACHE STRING "Site fact ${name} of Makefile.inc")
endfunction()

if(NOT CMAKE_TOOLCHAIN_FILE)
  espalier_site(CMAKE_C_COMPILER CC PROGRAM)
  espalier_site(CMAKE_CXX_COMPILER CXX PROGRAM)
endif()
espalier_site(MPI_C_COMPILER MPICC PROGRAM)
espalier_site(MPI_CXX_COMPILER MPICXX PROGRAM)
espalier_site(MPIEXEC_EXECUTABLE MPIEXEC PROGRAM)
espalier_site(MPIEXEC_NUMPROC_FLAG MPIEXEC_NUMPROC_FLAG)
espalier_site(MPIEXEC_PREFLAGS MPIEXEC_PREFLAGS)
espalier_site(HDF5_ROOT HDF5_ROOT)
if(NOT HDF5_ROOT)
  espalier_site(HDF5_C_COMPILER_EXECUTABLE H5PCC PROGRAM)
endif()
espalier_site(Kokkos_ROOT Kokkos_ROOT)
espalier_site(ESPALIER_ALLOW_DOWNLOAD ALLOW_DOWNLOAD)
espalier_site(ESPALIER_GEMM GEMM)
espalier_site(BLA_VENDOR BLAS_VENDOR)
espalier_site(ESPALIER_ARCH_FLAGS ARCH_FLAGS)
string(REPLACE "," ";" ESPALIER_SITE_CUDA_ARCHITECTURES "${ESPALIER_SITE_CUDA_ARCHITECTURES}")
espalier_site(ESPALIER_CUDA_ARCHITECTURES CUDA_ARCHITECTURES)

# A build folder keeps the facts it was configured with; say so when they have changed since.
foreach(_name CC CXX ARCH_FLAGS MPICC MPICXX MPIEXEC H5PCC HDF5_ROOT Kokkos_ROOT GEMM BLAS_VENDOR)
  string(APPEND _site_facts "${_name}=${ESPALIER_SITE_${_name}} ")
endforeach()
if(DEFINED ESPALIER_SITE_FACTS AND NOT ESPALIER_SITE_FACTS STREQUAL _site_facts)
  message(WARNING "The site facts have changed, but this build folder keeps those it was configured "
                  "with (${ESPALIER_SITE_FACTS}). To take over the new ones: cmake --fresh -B "
                  "${CMAKE_BINARY_DIR}, or `make build`.")
else()
  set(ESPALIER_SITE_FACTS "${_site_facts}" CACHE INTERNAL "Site facts of the first configure run")
endif()
