# SPDX-License-Identifier: Apache-2.0
# Gives the target Kokkos::kokkos: an installed Kokkos, else Debian's package, else a pinned release.
#
# Debian 12's libtrilinos-kokkos-dev (Kokkos 3.4.1, Serial) ships a CMake configuration that names
# /usr/lib/include, which does not exist: its headers are in /usr/include/trilinos. So that
# configuration is never loaded, and the target is made here from the files themselves.
set(ESPALIER_KOKKOS_VERSION 4.7.01 CACHE STRING "Kokkos release to fetch when none is installed")

find_package(Kokkos QUIET CONFIG NO_DEFAULT_PATH
             PATHS ${Kokkos_ROOT} $ENV{Kokkos_ROOT} ${Kokkos_DIR} ${CMAKE_PREFIX_PATH} /usr/local)
if(Kokkos_ROOT AND NOT Kokkos_FOUND)
  message(FATAL_ERROR "Kokkos_ROOT = ${Kokkos_ROOT} holds no Kokkos (no KokkosConfig.cmake below it); "
                      "name the folder that Kokkos was installed to, or leave it empty")
endif()
if(Kokkos_FOUND)
  set(ESPALIER_KOKKOS_SOURCE "${Kokkos_DIR} (${Kokkos_VERSION})")
  if(Kokkos_VERSION VERSION_LESS 3.4)
    message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} in ${Kokkos_DIR} is too old; 3.4 or later is needed")
  endif()
else()
  find_path(ESPALIER_TRILINOS_KOKKOS_INCLUDE Kokkos_Core.hpp PATH_SUFFIXES trilinos NO_CACHE)
  find_library(ESPALIER_TRILINOS_KOKKOS_CORE trilinos_kokkoscore NO_CACHE)
  find_library(ESPALIER_TRILINOS_KOKKOS_CONTAINERS trilinos_kokkoscontainers NO_CACHE)
  if(ESPALIER_TRILINOS_KOKKOS_INCLUDE AND ESPALIER_TRILINOS_KOKKOS_CORE)
    add_library(espalier_debian_kokkos INTERFACE)
    target_include_directories(espalier_debian_kokkos SYSTEM INTERFACE
                               ${ESPALIER_TRILINOS_KOKKOS_INCLUDE})
    target_link_libraries(espalier_debian_kokkos INTERFACE ${ESPALIER_TRILINOS_KOKKOS_CORE}
                          ${CMAKE_DL_LIBS})
    target_compile_features(espalier_debian_kokkos INTERFACE cxx_std_17)
    add_library(Kokkos::kokkos ALIAS espalier_debian_kokkos)
    set(ESPALIER_KOKKOS_SOURCE "Debian's libtrilinos-kokkos-dev (${ESPALIER_TRILINOS_KOKKOS_INCLUDE})")
  elseif(ESPALIER_ALLOW_DOWNLOAD)
    include(FetchContent)
    FetchContent_Declare(kokkos
      URL https://github.com/kokkos/kokkos/archive/refs/tags/${ESPALIER_KOKKOS_VERSION}.tar.gz)
    FetchContent_MakeAvailable(kokkos)
    set(ESPALIER_KOKKOS_SOURCE "fetched ${ESPALIER_KOKKOS_VERSION}")
  else()
    message(FATAL_ERROR
      "No Kokkos was found and ESPALIER_ALLOW_DOWNLOAD is OFF. Install libtrilinos-kokkos-dev "
      "(Debian), or set Kokkos_ROOT to an installed Kokkos (3.4 or later; for CUDA 13, 4.7 or "
      "later), or set ESPALIER_ALLOW_DOWNLOAD=ON where there is a network.")
  endif()
endif()
if(ESPALIER_ENABLE_CUDA_KERNELS AND NOT "CUDA" IN_LIST Kokkos_DEVICES AND NOT Kokkos_ENABLE_CUDA)
  message(FATAL_ERROR "ESPALIER_ENABLE_CUDA_KERNELS is ON, but this Kokkos has no CUDA "
                      "(${ESPALIER_KOKKOS_SOURCE}). Set Kokkos_ROOT in Makefile.inc to a Kokkos "
                      "built with CUDA (4.7 or later for CUDA 13).")
endif()
message(STATUS "Kokkos: ${ESPALIER_KOKKOS_SOURCE}")
