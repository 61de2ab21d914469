#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Small decks and layouts drawn at random: what `espalier check` accepts must run, must end, and
# must give the bytes of one rank (in fast mode, nearly its losses).
# Usage: random.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS draw SEED CASES
#        random.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS fixed FILE
#   draw   ESPALIER_RANDOM_SEED and ESPALIER_RANDOM_CASES of the environment win
#   fixed  the lines of FILE, each of which was a fault once; all must be accepted
# A case is one line, as random_deck.awk prints it; a case that fails is printed in that form.
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 action=$5
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=validation/layouts/layouts.sh
. "$here/layouts.sh"
mapfile -t common < <(common_settings)
deck=$inputs/gpt2-tiny.toml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
accepted=0 refused=0 bad=0

# Relative difference of the losses and norms in fast mode, in fp64. A sum that is missing or taken
# twice moves them by far more; rounding, even blown up by an ill-conditioned model, by less.
most_loss=1e-9 most_norm=1e-6
judge_close() { # NAME ONE MANY CODE
  local report
  if [ "$4" -ne 0 ] || ! is_whole "$2" || ! is_whole "$3"; then
    judge "$@"
    return
  fi
  report=$(paste -d, <(record "$2" | grep -E '^"(loss|gradient_norm|tokens|token_hash)"') \
                     <(record "$3" | grep -E '^"(loss|gradient_norm|tokens|token_hash)"') |
    awk -F '[,:]' -v loss=$most_loss -v norm=$most_norm '
      function off(a, b) { return a == b ? 0 : (a > b ? a - b : b - a) / (a > b ? a : b) }
      /token/ && $2 != $4 { print }
      $1 == "\"loss\"" && off($2, $4) > loss { print }
      $1 == "\"gradient_norm\"" && off($2, $4) > norm { print }')
  if [ -z "$report" ]; then
    echo "close     $1"
    return 0
  fi
  echo "DIFFERENT $1"
  echo "$report" | head -n 6
  echo "  one:  $(cat "$2.command")"
  echo "  many: $(cat "$3.command")"
  return 1
}

run_case() { # NAME LINE; returns 3 where check refuses it
  local name=$1 line=$2 ranks mode arithmetic grid code=0 setting sets=()
  IFS='|' read -r ranks mode arithmetic grid <<<"$line"
  read -r -a arithmetic <<<"$arithmetic"
  read -r -a grid <<<"$grid"
  rm -rf "${folder:?}"/*
  for setting in "${common[@]}" "${arithmetic[@]}" "${grid[@]}"; do sets+=(--set "$setting"); done
  "$bin/espalier" check "$deck" --ranks "$ranks" "${sets[@]}" >"$folder/check.log" 2>&1 || code=$?
  if [ $code -eq 2 ] && ! grep -q 'internal' "$folder/check.log"; then return 3; fi
  if [ $code -ne 0 ]; then
    echo "FAILED    $name: espalier check ended with $code"
    tail -n 3 "$folder/check.log"
    echo "  $(quote "$bin/espalier" check "$deck" --ranks "$ranks" "${sets[@]}")"
    return 1
  fi
  train 1 "$folder/one" "$deck" "${common[@]}" "${arithmetic[@]}" || code=$?
  if [ $code -ne 0 ]; then
    judge "$name" "$folder/one" "$folder/one" $code
    return 1
  fi
  train "$ranks" "$folder/many" "$deck" "${common[@]}" "${arithmetic[@]}" "${grid[@]}" || code=$?
  if [ "$mode" = same ]; then
    judge "$name" "$folder/one" "$folder/many" $code
  else
    judge_close "$name" "$folder/one" "$folder/many" $code
  fi
}

count_case() { # NAME LINE; counts, and prints the line of a case that fails
  local code=0
  run_case "$1" "$2" || code=$?
  case $code in
    0) accepted=$((accepted + 1)) ;;
    3) refused=$((refused + 1)) ;;
    *) accepted=$((accepted + 1)) bad=$((bad + 1))
       echo "  case: $2" ;;
  esac
}

case $action in
  draw)
    seed=${ESPALIER_RANDOM_SEED:-$6} cases=${ESPALIER_RANDOM_CASES:-$7}
    while [ $accepted -lt "$cases" ]; do
      line=$(awk -v seed="$seed" -v count=1 -f "$here/random_deck.awk")
      count_case "seed $seed, $(cut -d'|' -f1,2 <<<"$line"), $(cut -d'|' -f4 <<<"$line")" "$line"
      seed=$((seed + 1))
      [ $refused -lt $((20 * cases + 50)) ] || { echo "check refuses nearly everything"; exit 1; }
    done
    # Draws are awkward, but mostly legal or nearly so: a rule that forbids too much shows here.
    echo "$accepted cases, $bad of them wrong; espalier check refused $refused more" ;;
  fixed)
    while read -r line; do
      count_case "$line" "$line"
    done < <(grep -v '^#' "$6" | grep .)
    echo "$accepted cases, $bad of them wrong; espalier check refused $refused"
    [ $refused -eq 0 ] || exit 1 ;;
  *) echo "random.sh: no action '$action'" >&2; exit 2 ;;
esac
[ $accepted -gt 0 ] && [ $bad -eq 0 ]
