# SPDX-License-Identifier: Apache-2.0
# espalier_cuda_compile(): the target cuda-compile, which compiles the kernels listed in
# cuda/sources.cmake for every architecture of the site, warnings as errors. It needs nvcc but no
# GPU and no Kokkos with CUDA, so that a machine without either still checks the kernels.
#
# With ESPALIER_ENABLE_CUDA_KERNELS the same objects make the library espalier_cuda, and
# ESPALIER_CUDA_TARGETS is what the room device links.
set(ESPALIER_CUDA_TARGETS "")

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
    if(ESPALIER_ENABLE_CUDA_KERNELS)
      message(FATAL_ERROR "ESPALIER_ENABLE_CUDA_KERNELS is ON, but there is no nvcc on PATH or in "
                          "CUDA_HOME of Makefile.inc")
    endif()
    add_custom_target(cuda-compile COMMAND ${CMAKE_COMMAND} -E echo
      "cuda-compile: no nvcc on PATH or in CUDA_HOME, ${count} kernel files are not compiled" VERBATIM)
    return()
  endif()
  # nvcc_wrapper of Kokkos is no host compiler for nvcc.
  set(ESPALIER_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  if(CMAKE_CXX_COMPILER MATCHES "nvcc")
    find_program(ESPALIER_HOST_COMPILER_PROGRAM NAMES $ENV{NVCC_WRAPPER_DEFAULT_COMPILER} g++ REQUIRED)
    set(ESPALIER_HOST_COMPILER ${ESPALIER_HOST_COMPILER_PROGRAM})
  endif()
  set(generate "")
  foreach(arch IN LISTS ESPALIER_CUDA_ARCHITECTURES)
    list(APPEND generate -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cuda)
  set(objects "")
  foreach(source IN LISTS ESPALIER_CUDA_SOURCES)
    set(object ${PROJECT_BINARY_DIR}/cuda/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${ESPALIER_NVCC} -c ${PROJECT_SOURCE_DIR}/cuda/${source} -o ${object}
              -ccbin ${ESPALIER_HOST_COMPILER} -std=c++17 -O3 -lineinfo ${generate} -I ${PROJECT_SOURCE_DIR}/src
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
  if(ESPALIER_ENABLE_CUDA_KERNELS)
    find_package(CUDAToolkit REQUIRED)
    add_library(espalier_cuda STATIC ${objects})
    set_target_properties(espalier_cuda PROPERTIES LINKER_LANGUAGE CXX)
    target_compile_definitions(espalier_cuda INTERFACE ESPALIER_DEVICE=1)
    target_link_libraries(espalier_cuda INTERFACE CUDA::cudart CUDA::cublasLt)
    set(ESPALIER_CUDA_TARGETS espalier_cuda PARENT_SCOPE)
  endif()
endfunction()
espalier_cuda_compile()
