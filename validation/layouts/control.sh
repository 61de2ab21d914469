#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Negative controls: with one communication left out, or its result damaged, the comparison with
# one rank must fail; without, the same layout must pass it.
# Usage: control.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS [PART PARTS]
#        control.sh hooks SOURCES    every hook of the sources stands in controls.txt, and no other
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" = hooks ]; then
  diff <(grep -rhoE 'is_broken_for_test\("[a-z_]+"\)' "$2" | cut -d'"' -f2 | sort -u) \
       <(sed -nE 's/^([a-z_]+)( .*)?$/\1/p' "$here/controls.txt" | sort -u) ||
    { echo "< hooks of the sources, > controls.txt"; exit 1; }
  echo "every hook has its control"
  exit 0
fi
bin=$1 launcher=$2 flag=$3 inputs=$4 part=${5:-1} parts=${6:-1}
# shellcheck source=validation/layouts/layouts.sh
. "$here/layouts.sh"
mapfile -t common < <(common_settings)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0 count=0 number=0

# What the comparison must say: same, or DIFFERENT where something was broken.
expect() { # WORD NAME
  local verdict
  verdict=$(judge "$2" "$one" "$folder/many" 0 || true)
  if [ "${verdict%% *}" = "$1" ]; then
    echo "$verdict" | head -n 1
  else
    echo "WRONG: must be $1"
    echo "$verdict"
    bad=$((bad + 1))
  fi
}

while read -r hook family ranks words; do
  [ "$family" != - ] || continue # another test has it
  number=$((number + 1))
  [ $((number % parts)) -eq $((part % parts)) ] || continue
  read -r -a words <<<"$words"
  split_words "${words[@]}"
  rm -rf "${folder:?}"/many*
  deck=$inputs/$family-tiny.toml
  one=$folder/one-$family-${#arithmetic[@]}
  [ ${#arithmetic[@]} -eq 0 ] || rm -rf "$one"
  [ -d "$one" ] || train 1 "$one" "$deck" "${common[@]}" "${arithmetic[@]}"
  train "$ranks" "$folder/many" "$deck" "${common[@]}" "${arithmetic[@]}" "${grid[@]}"
  expect same "$family $ranks ${words[*]}"
  rm -rf "$folder/many"
  ESPALIER_TEST_BREAK=$hook train "$ranks" "$folder/many" "$deck" "${common[@]}" \
    "${arithmetic[@]}" "${grid[@]}" || { cat "$folder/many.log"; bad=$((bad + 1)); }
  grep -q "ESPALIER_TEST_BREAK=$hook" "$folder/many.log" ||
    { echo "WRONG: nothing asked for $hook"; bad=$((bad + 1)); }
  expect DIFFERENT "without $hook: $family $ranks ${words[*]}"
  count=$((count + 1))
done < <(grep -v '^#' "$here/controls.txt" | grep .)
echo "$count controls, $bad faults"
[ $count -gt 0 ] && [ $bad -eq 0 ]
