#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The checks of the tree that need no compiler. Usage: check.sh CHECK TREE
#   rooms    includes follow the room graph; mpi.h only in grid
#   sources  every .cpp of src/ is listed, in its room's sources.cmake or commands/CMakeLists.txt
#   sizes    no source file above 400 lines; functions above 60 lines are listed
#   headers  every source, script and CMake file names its licence in its first three lines
#   site     Makefile.inc holds bare NAME=value lines that sh, make and CMake read alike
#   shell    every shell script parses
# Prints file:line of every fault; exits 1 if there is one, 2 if it found nothing to check.
set -u
check=$1
here=$(cd "$(dirname "$0")" && pwd)
cd "$2" || exit 2

list() { find "$@" -type f 2>/dev/null | grep -v '/build' | sort; }
programs() { list src cuda validation | grep -E '\.(cpp|hpp|cu|cuh)$'; }
scripts() {
  list scripts validation jobscripts .ci | grep -E '\.(sh|sbatch|pbs)$'
  [ -f .ci/run ] && echo .ci/run
}
some() {
  [ -n "$1" ] || { echo "$check: found nothing to check in $(pwd)" >&2; exit 2; }
}

case $check in
  rooms)
    files=$(list src | grep -E '\.(cpp|hpp)$')
    some "$files"
    # shellcheck disable=SC2086  # names without blanks
    awk -f "$here/rooms.awk" CMakeLists.txt $files
    ;;
  sources)
    files=$(list src | grep '\.cpp$')
    some "$files"
    bad=0
    for file in $files; do
      folder=$(echo "$file" | cut -d/ -f1-2)  # a room lists its subfolders too
      cat "$folder/sources.cmake" "$folder/CMakeLists.txt" 2>/dev/null |
        tr -s ' ()\t' '\n' | grep -qxF "${file#"$folder"/}" || {
        echo "$file:1: listed neither in $folder/sources.cmake nor in $folder/CMakeLists.txt"
        bad=1
      }
    done
    exit $bad
    ;;
  sizes)
    files=$(programs)
    some "$files"
    # shellcheck disable=SC2086
    awk '
      function note_file() {
        if (lines > 400) { print name ":" lines ": " lines " lines, more than 400; split it"; bad = 1 }
        if (lines > longest) { longest = lines; longest_name = name }
        ++count
      }
      FNR == 1 { if (name != "") note_file(); name = FILENAME; start = 0 }
      { lines = FNR }
      # clang-format puts the end of a function at column 0, and its start there too.
      /^[A-Za-z_].*[^;]$/ && !start { start = FNR }
      /^(namespace|struct|class|enum|union|extern)/ { start = 0 }
      /^[^ \t].*;$/ && !/^}/ { start = 0 }
      /^}/ {
        if (start && FNR - start + 1 > 60)
          print "note: " FILENAME ":" start ": " FNR - start + 1 " lines in one block, more than 60"
        start = 0
      }
      END { note_file()
            printf "%d files, the longest %s with %d lines\n", count, longest_name, longest
            exit bad }' $files
    ;;
  headers)
    files="$(programs) $(scripts) $(list cmake cuda src validation | grep -E '(CMakeLists.txt|\.cmake)$')"
    some "$(echo "$files" | tr -d ' \n')"
    bad=0
    for file in $files CMakeLists.txt Makefile Makefile.inc; do
      head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
        echo "$file:1: no line 'SPDX-License-Identifier: Apache-2.0' among the first three"
        bad=1
      }
    done
    exit $bad
    ;;
  site)
    grep -qE '^[A-Za-z_]+=' Makefile.inc || exit 2
    ! grep -nvE '^(#.*|[A-Za-z_][A-Za-z0-9_]*=[^][:space:]"'\''$#\\;]*|)$' Makefile.inc |
      sed 's/^\([0-9]*\):/Makefile.inc:\1: not a bare NAME=value line: /' | grep .
    ;;
  shell)
    files=$(scripts)
    some "$files"
    bad=0
    for file in $files; do
      bash -n "$file" || bad=1
    done
    exit $bad
    ;;
  *)
    echo "check.sh: no check named '$check'" >&2
    exit 2
    ;;
esac
