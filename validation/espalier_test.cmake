# SPDX-License-Identifier: Apache-2.0
# The functions that make tests. Keyword arguments; unknown ones are refused.
#
#   espalier_test_program(unit_deck SOURCES a.cpp b.cpp LINK Espalier::deck [MPI])
#     A GoogleTest program. With MPI, its main (validation/mpi_main.cpp) starts MPI and Kokkos and
#     fails when any rank fails. With EMULATED, also as unit_deck_emulated, against the rooms built
#     for the emulated device (validation/emulator), where there are such.
#   espalier_test_library(harness SOURCES a.cpp LINK Espalier::engine)
#     What programs share, and its twin harness_emulated.
#   espalier_test(NAME deck.reader EXE unit_deck [ARGS ...] [NP 1 2 4] LABELS unit [TIMEOUT s]
#                 [FIXTURES_SETUP f] [FIXTURES_REQUIRED f] [ENVIRONMENT A=b]
#                 [WORKING_DIRECTORY d] [GPU]
#                 [EMULATED [EMULATED_ARGS ...] [EMULATED_NP 2] [PORTABLE_ARGS ...]])
#     One CTest entry, or with NP one a rank count, named NAME.np<N> and labelled np<N>, started by
#     the launcher and counted as N processors. Exit code 77 means skipped. GPU: label gpu, and one
#     device a rank is asked of CTest. EXE is a target or a program's full path. EMULATED: in a
#     build for a GPU the test is one with GPU; in any other, a second entry emulated.NAME with the
#     label emulated runs the twin of EXE, with EMULATED_ARGS and EMULATED_NP where they are given.
#     With PORTABLE_ARGS, one more entry NAME.portable of both kinds runs without the kernels of cuda/.
#   espalier_fuzzer(fuzz_deck SOURCES fuzz_deck.cpp LINK Espalier::deck [SEEDS folder])
#     A libFuzzer program, in a build with ESPALIER_FUZZ; its test (label fuzz) runs it for
#     ESPALIER_FUZZ_SECONDS from the seed files. New inputs stay in the build folder.

# Sanitizers make programs slower; what takes long in truth still hits the limit.
set(ESPALIER_TIMEOUT_FACTOR 1)
if(ESPALIER_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(ESPALIER_TIMEOUT_FACTOR 8)
endif()

# The libraries `ARGN` as a program on the emulated device links them.
function(_espalier_emulated_link result)
  set(found "")
  foreach(library IN LISTS ARGN)
    string(REPLACE "Espalier::" "espalier_" twin ${library}_emulated)
    if(TARGET ${twin})
      list(APPEND found ${twin})
    else()
      list(APPEND found ${library})
    endif()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

function(espalier_test_library name)
  cmake_parse_arguments(T "" "" "SOURCES;LINK" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_test_library(${name}): unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  add_library(${name} STATIC ${T_SOURCES})
  target_link_libraries(${name} PUBLIC ${T_LINK} PRIVATE espalier_warnings)
  if(TARGET espalier_tensor_emulated)
    _espalier_emulated_link(link ${T_LINK})
    add_library(${name}_emulated STATIC ${T_SOURCES})
    target_link_libraries(${name}_emulated PUBLIC ${link} PRIVATE espalier_warnings)
  endif()
endfunction()

function(espalier_test_program name)
  cmake_parse_arguments(T "MPI;EMULATED" "" "SOURCES;LINK" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_test_program(${name}): unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${T_SOURCES})
  if(T_MPI)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/validation/mpi_main.cpp)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/validation)
    if(NOT espalier_grid_emulated IN_LIST T_LINK)
      list(APPEND T_LINK Espalier::grid)
    endif()
    target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest espalier_warnings)
  else()
    target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest_main espalier_warnings)
  endif()
  if(T_EMULATED AND TARGET espalier_tensor_emulated)
    _espalier_emulated_link(link ${T_LINK})
    set(mpi "")
    if(T_MPI)
      set(mpi MPI)
    endif()
    espalier_test_program(${name}_emulated SOURCES ${T_SOURCES} LINK ${link} ${mpi})
  endif()
endfunction()

function(espalier_test)
  cmake_parse_arguments(T "GPU;EMULATED" "NAME;EXE;TIMEOUT;WORKING_DIRECTORY"
    "ARGS;NP;LABELS;FIXTURES_SETUP;FIXTURES_REQUIRED;ENVIRONMENT;EMULATED_ARGS;EMULATED_NP;PORTABLE_ARGS"
    ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_test(${T_NAME}): unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  foreach(key NAME EXE LABELS)
    if(NOT T_${key})
      message(FATAL_ERROR "espalier_test(${T_NAME}): ${key} is missing")
    endif()
  endforeach()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 120)
  endif()
  math(EXPR T_TIMEOUT "${T_TIMEOUT} * ${ESPALIER_TIMEOUT_FACTOR}")
  if(TARGET ${T_EXE})
    set(command $<TARGET_FILE:${T_EXE}>)
  else()
    set(command ${T_EXE})
  endif()
  if(T_EMULATED AND ESPALIER_ENABLE_CUDA_KERNELS)
    set(T_GPU TRUE)
  endif()
  set(cases ${T_NP})
  if(NOT cases)
    set(cases 0)
  endif()
  foreach(np ${cases})
    if(np EQUAL 0)
      set(test ${T_NAME})
      set(slots 1)
      set(labels ${T_LABELS})
      add_test(NAME ${test} COMMAND ${command} ${T_ARGS})
    else()
      set(test ${T_NAME}.np${np})
      set(slots ${np})
      set(labels ${T_LABELS} np${np})
      add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${np}
               ${MPIEXEC_PREFLAGS} ${command} ${MPIEXEC_POSTFLAGS} ${T_ARGS})
    endif()
    if(T_GPU)
      list(APPEND labels gpu)
      set_tests_properties(${test} PROPERTIES RESOURCE_GROUPS "${slots},gpus:1")
    endif()
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT}
                         PROCESSORS ${slots} SKIP_RETURN_CODE 77
                         ENVIRONMENT
                         "OMP_NUM_THREADS=1;UBSAN_OPTIONS=print_stacktrace=1;${T_ENVIRONMENT}")
    if(T_WORKING_DIRECTORY)
      set_tests_properties(${test} PROPERTIES WORKING_DIRECTORY ${T_WORKING_DIRECTORY})
    endif()
    if(T_FIXTURES_SETUP)
      set_tests_properties(${test} PROPERTIES FIXTURES_SETUP "${T_FIXTURES_SETUP}")
    endif()
    if(T_FIXTURES_REQUIRED)
      set_tests_properties(${test} PROPERTIES FIXTURES_REQUIRED "${T_FIXTURES_REQUIRED}")
    endif()
  endforeach()
  if(T_EMULATED AND TARGET ${T_EXE}_emulated)
    if(T_EMULATED_ARGS)
      set(T_ARGS ${T_EMULATED_ARGS})
    endif()
    if(T_EMULATED_NP)
      set(T_NP ${T_EMULATED_NP})
    endif()
    set(T_NAME emulated.${T_NAME})
    set(T_EXE ${T_EXE}_emulated)
    list(APPEND T_LABELS emulated)
    espalier_test(NAME ${T_NAME} EXE ${T_EXE} ARGS ${T_ARGS} NP ${T_NP} LABELS ${T_LABELS}
                  TIMEOUT 300 ENVIRONMENT ${T_ENVIRONMENT})
  elseif(NOT T_GPU)
    return()
  endif()
  if(T_PORTABLE_ARGS)
    if(T_GPU)
      set(gpu GPU)
    endif()
    espalier_test(NAME ${T_NAME}.portable EXE ${T_EXE} ARGS ${T_PORTABLE_ARGS} NP ${T_NP}
                  LABELS ${T_LABELS} TIMEOUT 300 ${gpu}
                  ENVIRONMENT ${T_ENVIRONMENT} ESPALIER_TEST_KERNELS=portable)
  endif()
endfunction()

function(espalier_fuzzer name)
  cmake_parse_arguments(T "" "SEEDS" "SOURCES;LINK" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_fuzzer(${name}): unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LINK} espalier_warnings)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzzers ${name})
  set(found ${CMAKE_CURRENT_BINARY_DIR}/${name}.corpus)
  file(MAKE_DIRECTORY ${found})
  math(EXPR timeout "${ESPALIER_FUZZ_SECONDS} + 60")
  add_test(NAME fuzz.${name} COMMAND ${name} -max_total_time=${ESPALIER_FUZZ_SECONDS}
           -max_len=16384 -timeout=60 -print_final_stats=1 ${found} ${T_SEEDS})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
endfunction()
