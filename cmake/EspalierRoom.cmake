# SPDX-License-Identifier: Apache-2.0
# espalier_room(NAME USES rooms... LINK targets...): one static library a room, from src/NAME.
# The sources are listed in src/NAME/sources.cmake as ESPALIER_SOURCES: a plain list and no glob,
# so that no build is stale; the test lint.sources finds a forgotten file.
set_property(GLOBAL PROPERTY ESPALIER_ROOM_GRAPH "")

function(espalier_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LINK" ${ARGN})
  if(ROOM_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "espalier_room(${name}): unknown arguments ${ROOM_UNPARSED_ARGUMENTS}")
  endif()
  set(ESPALIER_SOURCES "")
  include(${PROJECT_SOURCE_DIR}/src/${name}/sources.cmake)
  list(TRANSFORM ESPALIER_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/${name}/)
  list(TRANSFORM ROOM_USES PREPEND Espalier:: OUTPUT_VARIABLE uses)
  if(ESPALIER_SOURCES)
    add_library(espalier_${name} STATIC ${ESPALIER_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(espalier_${name} PRIVATE espalier_warnings)
  else()  # a room of headers alone
    add_library(espalier_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(Espalier::${name} ALIAS espalier_${name})
  target_include_directories(espalier_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(espalier_${name} ${scope} ${uses} ${ROOM_LINK} espalier_settings)
  set_property(GLOBAL APPEND_STRING PROPERTY ESPALIER_ROOM_GRAPH "${name}: ${ROOM_USES}\n")
endfunction()
