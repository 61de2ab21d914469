# SPDX-License-Identifier: Apache-2.0
# The front program becomes espalier-spmd: from beside itself with the same arguments and the exit
# code of the other; without one it says so and exits 3. The other program is a script here.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/alone)
file(COPY ${PROGRAM} DESTINATION ${FOLDER})
file(COPY ${PROGRAM} DESTINATION ${FOLDER}/alone)
file(WRITE ${FOLDER}/espalier-spmd "#!/bin/sh\necho \"spmd got: $*\"\nexit 42\n")
file(CHMOD ${FOLDER}/espalier-spmd PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)

function(expect place path code text)
  set(ENV{PATH} ${path})
  execute_process(COMMAND ${place}/espalier train a.toml --set "run.directory=a b"
                  RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  string(FIND "${out}${err}" "${text}" found)
  if(NOT result STREQUAL code OR found EQUAL -1)
    message(FATAL_ERROR "${place}: exit code ${result}, expected ${code} and: ${text}\n${out}${err}")
  endif()
endfunction()

expect(${FOLDER} /usr/bin:/bin 42 "spmd got: train a.toml --set run.directory=a b")
expect(${FOLDER}/alone /usr/bin:/bin 3 "error: cannot start espalier-spmd (No such file or directory)")
expect(${FOLDER}/alone ${FOLDER}:/usr/bin:/bin 42 "spmd got: train a.toml")
file(CHMOD ${FOLDER}/espalier-spmd PERMISSIONS OWNER_READ OWNER_WRITE)
expect(${FOLDER} /usr/bin:/bin 3 "(Permission denied)")
