# SPDX-License-Identifier: Apache-2.0
# Runs a command and checks its exit code and its text, both (a CTest PASS_REGULAR_EXPRESSION
# ignores the exit code). See espalier_expect in validation/espalier_expect.cmake.
#
#   cmake -DEXIT=2 "-DTEXT=one;another" "-DNOT_TEXT=..." -P expect.cmake -- command arguments...
#
# Every item of TEXT must stand in stdout or stderr as it is; no item of NOT_TEXT may.
set(command "")
set(is_command OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(is_command)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(is_command ON)
  endif()
endforeach()
if(NOT command OR NOT DEFINED EXIT)
  message(FATAL_ERROR "expect.cmake needs -DEXIT=N and a command behind --")
endif()
execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
set(text "${out}${err}")
if(NOT code STREQUAL EXIT)
  message(FATAL_ERROR "exit code ${code}, expected ${EXIT}; the text was:\n${text}")
endif()
foreach(part IN LISTS TEXT)
  string(FIND "${text}" "${part}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "not found: ${part}\nThe text was:\n${text}")
  endif()
endforeach()
foreach(part IN LISTS NOT_TEXT)
  string(FIND "${text}" "${part}" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "must not be there: ${part}\nThe text was:\n${text}")
  endif()
endforeach()
