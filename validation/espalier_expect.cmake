# SPDX-License-Identifier: Apache-2.0
# espalier_expect(NAME deck.check.bad EXE espalier ARGS check bad.toml EXIT 2
#                 TEXT "2 faults" [NOT_TEXT ...] LABELS deck)
# One CTest entry that checks the exit code and the text of a program. A semicolon separates the
# items of TEXT, so a text itself has none.
include_guard()

function(espalier_expect)
  cmake_parse_arguments(T "" "NAME;EXE;EXIT" "ARGS;TEXT;NOT_TEXT;LABELS;ENVIRONMENT" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_expect(${T_NAME}): unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  if(TARGET ${T_EXE})
    set(T_EXE $<TARGET_FILE:${T_EXE}>)
  endif()
  add_test(NAME ${T_NAME}
           COMMAND ${CMAKE_COMMAND} -DEXIT=${T_EXIT} "-DTEXT=${T_TEXT}" "-DNOT_TEXT=${T_NOT_TEXT}"
                   -P ${PROJECT_SOURCE_DIR}/validation/expect.cmake -- ${T_EXE} ${T_ARGS})
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT 60
                       ENVIRONMENT "OMP_NUM_THREADS=1;${T_ENVIRONMENT}")
endfunction()
