# SPDX-License-Identifier: Apache-2.0
# espalier_cuda_compile(): the target cuda-compile, which compiles the kernels listed in
# cuda/sources.cmake for every architecture of the site, warnings as errors. It needs nvcc but no
# GPU and no Kokkos with CUDA, so that a machine without either still checks the kernels.

function(espalier_cuda_compile)
  set(ESPALIER_CUDA_SOURCES "")
  include(${PROJECT_SOURCE_DIR}/cuda/sources.cmake)
  file(GLOB present RELATIVE ${PROJECT_SOURCE_DIR}/cuda CONFIGURE_DEPENDS
       ${PROJECT_SOURCE_DIR}/cuda/*.cu)
  list(REMOVE_ITEM present "" ${ESPALIER_CUDA_SOURCES})
  if(present)
    message(FATAL_ERROR "cuda/: ${present} is not listed in cuda/sources.cmake, so nothing would "
                        "compile it; add it to ESPALIER_CUDA_SOURCES")
  endif()

  find_program(ESPALIER_NVCC nvcc HINTS ${ESPALIER_SITE_CUDA_HOME} PATH_SUFFIXES bin
               DOC "The CUDA compiler, for the target cuda-compile")
  list(LENGTH ESPALIER_CUDA_SOURCES count)
  if(NOT ESPALIER_NVCC)
    add_custom_target(cuda-compile COMMAND ${CMAKE_COMMAND} -E echo
      "cuda-compile: no nvcc on PATH or in CUDA_HOME, ${count} kernel files are not compiled" VERBATIM)
    return()
  endif()
  set(generate "")
  foreach(arch IN LISTS ESPALIER_CUDA_ARCHITECTURES)
    list(APPEND generate -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  set(objects "")
  foreach(source IN LISTS ESPALIER_CUDA_SOURCES)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${ESPALIER_NVCC} -c ${PROJECT_SOURCE_DIR}/cuda/${source} -o ${object}
              -ccbin ${CMAKE_CXX_COMPILER} -std=c++17 -O3 ${generate} -I ${PROJECT_SOURCE_DIR}/src
              -I ${PROJECT_SOURCE_DIR} -MD -MF ${object}.d
              -Werror all-warnings -Xcompiler=-Wall,-Wextra,-Werror
      DEPENDS ${PROJECT_SOURCE_DIR}/cuda/${source} DEPFILE ${object}.d VERBATIM
      COMMENT "nvcc cuda/${source} (sm_${ESPALIER_CUDA_ARCHITECTURES})")
    list(APPEND objects ${object})
  endforeach()
  if(count EQUAL 0)
    add_custom_target(cuda-compile COMMAND ${CMAKE_COMMAND} -E echo
      "cuda-compile: cuda/sources.cmake lists no kernel yet, nothing to compile" VERBATIM)
  else()
    add_custom_target(cuda-compile DEPENDS ${objects} COMMAND ${CMAKE_COMMAND} -E echo
      "cuda-compile: ${count} kernel files compiled for sm_${ESPALIER_CUDA_ARCHITECTURES}"
      VERBATIM)
  endif()
endfunction()
