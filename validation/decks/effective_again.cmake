# SPDX-License-Identifier: Apache-2.0
# For every deck of INPUTS: the effective deck is sound, and writing it again changes origins only;
# the third writing has the bytes of the second.
file(GLOB decks ${INPUTS}/*.toml)
list(FILTER decks EXCLUDE REGEX "corpus[^/]*$")  # corpus decks have no effective form
list(LENGTH decks count)
if(count EQUAL 0)
  message(FATAL_ERROR "no decks in ${INPUTS}")
endif()
foreach(deck ${decks})
  set(source ${deck})
  foreach(round 1 2 3)
    set(written ${FOLDER}/effective-${round}.toml)
    execute_process(COMMAND ${PROGRAM} deck --effective ${source} OUTPUT_FILE ${written}
                    ERROR_VARIABLE errors RESULT_VARIABLE code)
    if(NOT code EQUAL 0 OR errors)
      message(FATAL_ERROR "${deck}, round ${round}: exit code ${code}\n${errors}")
    endif()
    file(STRINGS ${written} lines REGEX " = ")
    list(TRANSFORM lines REPLACE "  # [a-z0-9 -]+$" "")
    set(values_${round} "${lines}")
    set(source ${written})
  endforeach()
  if(NOT values_1 STREQUAL values_2 OR NOT values_1)
    message(FATAL_ERROR "${deck}: its effective deck has other values when read again")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${FOLDER}/effective-2.toml
                          ${FOLDER}/effective-3.toml RESULT_VARIABLE differs)
  if(differs)
    message(FATAL_ERROR "${deck}: the effective deck is not its own effective deck")
  endif()
endforeach()
