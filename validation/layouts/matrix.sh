#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The matrix of layouts (matrix.txt): each must give the bytes of one rank.
# Usage: matrix.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS WORK ACTION [FAMILY [PART PARTS]]
#   table      checks the table itself: enough layouts, none twice
#   baselines  runs FAMILY on one rank, once for each arithmetic that the table asks for, into WORK
#   run        runs and judges every PARTS-th layout of FAMILY from PART on, one after the other
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 work=$5 action=$6 family=${7:-}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=validation/layouts/layouts.sh
. "$here/layouts.sh"
mapfile -t common < <(common_settings)

layouts_of() { # FAMILY
  sed -nE "s/^(all|$1) //p" "$here/matrix.txt"
}

# More heads and blocks than the tiny decks have, for eight shards and four stages.
family_settings() {
  case $family in
    gpt2) echo model.num_layers=4 model.num_heads=8 ;;
    llama) echo model.num_layers=4 model.num_heads=8 ;;
    cohere) echo model.num_layers=4 ;;
    *) echo "matrix.sh: no family '$family'" >&2; exit 2 ;;
  esac
}

baseline_of() { # the folder of one rank with this arithmetic
  local words="${arithmetic[*]}"
  words=${words//"$work/"/}
  echo "$work/one ${words//[^A-Za-z0-9_.=]/_}" | tr ' ' '-'
}

check_table() {
  local bad=0 f layouts joined
  for f in gpt2 llama cohere; do
    layouts=$(layouts_of "$f" | wc -l)
    joined=$(layouts_of "$f" | awk 'NF > 2' | wc -l)
    echo "$f: $layouts layouts, $joined of them with more than one axis or option"
    if [ "$layouts" -lt 40 ] || [ "$joined" -lt 40 ]; then bad=1; fi
    layouts_of "$f" | sort | uniq -d | sed 's/^/twice: /' | grep . && bad=1
  done
  if grep -nvE '^(#.*|(all|gpt2|llama|cohere) [0-9]+( [a-z0-9_.]+=[^ ]+)*|)$' "$here/matrix.txt"
  then bad=1; fi
  exit $bad
}

# A corpus of documents from a few words to longer than a sequence.
make_documents() {
  awk 'BEGIN { s = 7
    for (i = 0; i < 9000; ++i) { s = (s * 16807) % 2147483647; printf "%c", 97 + s % 26
      if (s % 11 == 0) printf " " } }' >"$work/text.txt"
  mkdir -p "$work/texts"
  split --additional-suffix=.txt -a 3 -b 60 "$work/text.txt" "$work/texts/short."
  split --additional-suffix=.txt -a 3 -b 17 <(head -c 2500 "$work/text.txt") "$work/texts/tiny."
  "$bin/espalier" corpus build --out "$work/documents" "$work"/texts/*.txt >"$work/corpus.log"
}

baselines() {
  local line words one code=0
  rm -rf "$work"
  mkdir -p "$work"
  make_documents
  while read -r line; do
    read -r -a words <<<"$line"
    split_words "${words[@]:1}"
    one=$(baseline_of)
    [ -e "$one.command" ] && continue
    # shellcheck disable=SC2046
    train 1 "$one" "$inputs/$family-tiny.toml" "${common[@]}" $(family_settings) "${arithmetic[@]}" ||
      { echo "FAILED one rank: ${arithmetic[*]}"; cat "$one.command" "$one.log"; code=1; }
  done < <(layouts_of "$family")
  find "$work" -name '*.command' | wc -l
  exit $code
}

run_part() { # PART PARTS
  local line words many code bad=0 count=0 number=0 folder
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$folder'" EXIT
  while read -r line; do
    number=$((number + 1))
    [ $((number % $2)) -eq $(($1 % $2)) ] || continue
    read -r -a words <<<"$line"
    split_words "${words[@]:1}"
    many=$folder/many-$number code=0
    # shellcheck disable=SC2046
    train "${line%% *}" "$many" "$inputs/$family-tiny.toml" "${common[@]}" $(family_settings) \
      "${arithmetic[@]}" "${grid[@]}" || code=$?
    judge "$family $line" "$(baseline_of)" "$many" $code || bad=$((bad + 1))
    count=$((count + 1))
  done < <(layouts_of "$family")
  echo "$count layouts, $bad of them wrong"
  [ $count -gt 0 ] && [ $bad -eq 0 ]
}

case $action in
  table) check_table ;;
  baselines) baselines ;;
  run) run_part "$8" "$9" ;;
  *) echo "matrix.sh: no action '$action'" >&2; exit 2 ;;
esac
