# SPDX-License-Identifier: Apache-2.0
# The options of the build, few and all ESPALIER_..., and the compile settings of every target.
option(ESPALIER_ENABLE_TESTS "Build validation/" ON)
option(ESPALIER_WARNINGS_AS_ERRORS "Stop at the first compiler warning" OFF)
option(ESPALIER_ALLOW_DOWNLOAD "Let CMake fetch Kokkos when none is installed" ON)
option(ESPALIER_ENABLE_CUDA_KERNELS "Compile cuda/ into the program (needs a Kokkos with CUDA)" OFF)
option(ESPALIER_FUZZ "Build validation/fuzz with libFuzzer (needs clang)" OFF)
set(ESPALIER_FUZZ_SECONDS 20 CACHE STRING "How long one CTest run of a fuzzer takes")
set(ESPALIER_SANITIZE "" CACHE STRING "Sanitizers for every target, e.g. address,undefined")
set(ESPALIER_ARCH_FLAGS "" CACHE STRING
    "Processor flags; rank and login nodes of different kinds need a common one")
add_feature_info(tests ESPALIER_ENABLE_TESTS "validation/")
add_feature_info(fuzz ESPALIER_FUZZ "validation/fuzz")

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_BINARY_DIR)
  message(FATAL_ERROR "The build folder is the source folder. Use `make build`, or name another one "
                      "(cmake -B build/release), and remove CMakeCache.txt and CMakeFiles/ here.")
endif()
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
# Both programs in one folder: the front door starts the other one from beside itself.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

add_library(espalier_settings INTERFACE)
target_compile_features(espalier_settings INTERFACE cxx_std_17)
separate_arguments(_arch UNIX_COMMAND "${ESPALIER_ARCH_FLAGS}")
target_compile_options(espalier_settings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${_arch}>")
if(ESPALIER_SANITIZE)
  target_compile_options(espalier_settings INTERFACE
    -fsanitize=${ESPALIER_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(espalier_settings INTERFACE -fsanitize=${ESPALIER_SANITIZE})
endif()
if(ESPALIER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ESPALIER_FUZZ needs clang (libFuzzer), not ${CMAKE_CXX_COMPILER_ID}; use "
                        "`make fuzz`, or configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  target_compile_options(espalier_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

add_library(espalier_warnings INTERFACE)
target_compile_options(espalier_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor>")
if(ESPALIER_WARNINGS_AS_ERRORS)
  target_compile_options(espalier_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
