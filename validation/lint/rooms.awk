# SPDX-License-Identifier: Apache-2.0
# Holds src/ to the room graph of CMakeLists.txt: prints one line for every fault, exits 1 if any.
# Usage: cd TREE && awk -f rooms.awk CMakeLists.txt SOURCE...   (sources as src/<room>/<file>)
#
# Faults: a USES that names a room declared later (a cycle), a folder of src/ that is no room, an
# include of a room that the row does not name, of a file that does not exist, of mpi.h outside
# grid, of Kokkos in a room that does not link it. commands/ wires everything and may include all.

function fault(text) { print text; faults = 1 }

function declare_room(row,    words, n, i, name, mode) {
  gsub(/[()]/, " ", row)
  n = split(row, words, /[ \t\n]+/)
  for (i = 1; i <= n; ++i) {
    if (words[i] == "" || words[i] == "espalier_room") continue
    if (name == "") { name = words[i]; room[name] = 1; allowed[name, name] = 1 }
    else if (words[i] == "USES" || words[i] == "LINK") mode = words[i]
    else if (mode == "USES") {
      if (!(words[i] in room))
        fault(FILENAME ":" FNR ": room " name " uses " words[i] ", which is not declared before it")
      allowed[name, words[i]] = 1
    } else if (mode == "LINK" && words[i] == "Kokkos::kokkos") has_kokkos[name] = 1
  }
}

function exists(path,    line, found) {
  found = (getline line < path) >= 0
  close(path)
  return found
}

BEGIN { room["commands"] = 1; has_kokkos["commands"] = 1 }

FILENAME ~ /CMakeLists.txt$/ {
  if (open_row == "" && $0 !~ /^espalier_room\(/) next
  open_row = open_row " " $0
  if ($0 ~ /\)/) { declare_room(open_row); open_row = ""; ++rows }
  next
}

FNR == 1 {
  split(FILENAME, part, "/")
  here = part[2]
  if (!(here in room)) fault(FILENAME ":1: src/" here " is not a room of CMakeLists.txt")
}

/^[ \t]*#[ \t]*include/ {
  place = FILENAME ":" FNR ": "
  target = $0
  sub(/^[^"<]*["<]/, "", target)
  sub(/[">].*/, "", target)
  if (target == "mpi.h" && here != "grid")
    fault(place here "/ includes mpi.h, which only grid/ may; use Comm (grid/comm.hpp)")
  if (target ~ /^Kokkos/ && !(here in has_kokkos))
    fault(place here "/ includes " target ", but its row does not link Kokkos::kokkos")
  if ($0 !~ /"/) next
  ++checked
  if (target ~ /^cuda\//) {  # kernels that rooms with a device call
    if (here != "commands" && !((here, "device") in allowed))
      fault(place here "/ includes " target ", but its row does not name device")
    if (!exists(target)) fault(place "\"" target "\" is not a file")
    next
  }
  if (target == "emulator/enqueue.hpp") {  # the one door to the emulated device
    if (!exists("validation/" target)) fault(place "\"" target "\" is not below validation/")
    next
  }
  if (!exists("src/" target)) {
    fault(place "\"" target "\" is not a file under src/; write includes as \"room/file.hpp\"")
    next
  }
  split(target, part, "/")
  if (here != "commands" && !((here, part[1]) in allowed))
    fault(place here "/ includes \"" target "\", but its row in CMakeLists.txt does not name " part[1])
}

END {
  if (rows == 0) fault("CMakeLists.txt has no espalier_room(...) row")
  if (checked == 0) fault("no include was found, so nothing was checked")
  if (!faults) printf "%d rooms, %d includes: every one is allowed\n", rows, checked
  exit faults
}
