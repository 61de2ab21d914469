#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Negative controls of check.sh: plants one fault at a time in a small good tree and demands that
# the check names it. Usage: controls.sh FOLDER   (an empty one, which it fills)
set -u
check=$(cd "$(dirname "$0")" && pwd)/check.sh
folder=$1
failed=0
licence='SPDX-License-Identifier: Apache-2.0'

plant_good_tree() {
  rm -rf "$folder"
  mkdir -p "$folder/src/core" "$folder/src/grid" "$folder/src/deck" "$folder/scripts" \
    "$folder/validation"
  cd "$folder" || exit 2
  cat >CMakeLists.txt <<EOF
# $licence
espalier_room(core LINK fmt::fmt)
espalier_room(deck USES core)
espalier_room(grid USES core
              LINK Kokkos::kokkos)
EOF
  echo "// $licence" | tee src/core/a.hpp >src/deck/d.hpp
  printf '// %s\n#include "core/a.hpp"\n' "$licence" >src/deck/d.cpp
  printf '# %s\nset(ESPALIER_SOURCES d.cpp)\n' "$licence" >src/deck/sources.cmake
  printf '// %s\n#include <Kokkos_Core.hpp>\n#include <mpi.h>\n' "$licence" >src/grid/g.hpp
  printf '# %s\nexit 0\n' "$licence" >scripts/s.sh
  printf '# %s\n' "$licence" >Makefile
  printf '# %s\nCXX=g++\nARCH_FLAGS=-march=native\nEMPTY=\n' "$licence" >Makefile.inc
}

# demand CHECK CODE TEXT: the check on the planted tree ends with CODE and says TEXT.
demand() {
  output=$("$check" "$1" "$folder" 2>&1)
  code=$?
  if [ "$code" -ne "$2" ] || ! printf '%s\n' "$output" | grep -qF -- "$3"; then
    echo "FAILED: $1 ended with $code (wanted $2); wanted '$3' in:"
    printf '%s\n' "$output"
    failed=1
  else
    echo "ok: $1 -> $2, $3"
  fi
}

plant_good_tree
demand rooms 0 '3 rooms, 1 includes'
demand sources 0 ''
demand sizes 0 'the longest'
demand headers 0 ''
demand site 0 ''
demand shell 0 ''

printf '#include "deck/d.hpp"\n' >>src/core/a.hpp
demand rooms 1 'src/core/a.hpp:2: core/ includes "deck/d.hpp"'
plant_good_tree
printf '#include "grid/g.hpp"\n' >>src/deck/d.cpp
demand rooms 1 'src/deck/d.cpp:3: deck/ includes "grid/g.hpp"'
plant_good_tree
printf '  #  include <mpi.h>\n' >>src/deck/d.cpp
demand rooms 1 'src/deck/d.cpp:3: deck/ includes mpi.h'
plant_good_tree
printf '#include <Kokkos_Core.hpp>\n' >>src/core/a.hpp
demand rooms 1 'src/core/a.hpp:2: core/ includes Kokkos_Core.hpp'
plant_good_tree
printf '#include "core/none.hpp"\n' >>src/deck/d.cpp
demand rooms 1 'src/deck/d.cpp:3: "core/none.hpp" is not a file'
plant_good_tree
mkdir src/extra && cp src/deck/d.cpp src/extra/e.cpp
demand rooms 1 'src/extra/e.cpp:1: src/extra is not a room'
plant_good_tree
sed -i 's/deck USES core/deck USES core grid/' CMakeLists.txt
demand rooms 1 'room deck uses grid, which is not declared before it'
plant_good_tree
rm src/deck/d.cpp
demand rooms 1 'nothing was checked'

plant_good_tree
cp src/deck/d.cpp src/deck/dd.cpp
demand sources 1 'src/deck/dd.cpp:1: listed neither'

plant_good_tree
awk 'BEGIN { for (i = 0; i < 401; ++i) print "// line" }' >src/core/long.hpp
demand sizes 1 'src/core/long.hpp:401: 401 lines'
demand headers 1 'src/core/long.hpp:1: no line'
plant_good_tree
{
  printf 'int long_one() {\n'
  awk 'BEGIN { for (i = 0; i < 60; ++i) print "  step();" }'
  printf '}\n'
} >>src/deck/d.cpp
demand sizes 0 'note: src/deck/d.cpp:3: 62 lines in one block'

for line in 'CXX = g++' 'FLAGS=-O2 -g' 'CXX="g++"' 'export CXX=g++' 'A=$B'; do
  plant_good_tree
  printf '%s\n' "$line" >>Makefile.inc
  demand site 1 "Makefile.inc:5: not a bare NAME=value line: $line"
done

plant_good_tree
printf 'if true; then\n' >>scripts/s.sh
demand shell 1 's.sh'
rm -rf "$folder/scripts"
demand shell 2 'nothing to check'
exit $failed
