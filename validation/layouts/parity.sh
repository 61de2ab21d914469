#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same deck on one rank and on several: with numerics.reproducible every loss, gradient norm and
# parameter must be the same bits; without it they agree to a tolerance.
# Usage: parity.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS DECK MODE RANKS [section.key=value]
#   MODE  same     reproducible, every bit equal
#         close    fast mode, 1e-5 relative in the losses and norms of 20 steps
#         broken:THING  a negative control: THING (ESPALIER_TEST_BREAK) is left out on several ranks,
#                  and the comparison must fail
set -euo pipefail
bin=$1 launcher=$2 flag=$3 deck=$5 mode=$6 ranks=$7
shift 7
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=(--set run.steps=20 --set batch.micro_batch_size=1 --set batch.global_batch_size=16)
layout=() # keys of [grid] are for the several ranks alone
for setting in "$@"; do
  case $setting in
    grid.*) layout+=(--set "$setting") ;;
    *) settings+=(--set "$setting") ;;
  esac
done
tolerance=0
case $mode in
  close) tolerance=1e-5 ;;
  *) settings+=(--set numerics.reproducible=true) ;;
esac
run() { # ranks folder [argument ...]
  local ranks=$1 folder=$2
  shift 2
  "$launcher" "$flag" "$ranks" "$bin/espalier-spmd" train "$deck" --set run.directory="$folder" \
    "${settings[@]}" "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
}
run 1 "$work/one"
case $mode in
  broken:*) export ESPALIER_TEST_BREAK=${mode#broken:} ;;
esac
run "$ranks" "$work/many" "${layout[@]}"
unset ESPALIER_TEST_BREAK
code=0
"$bin/espalier-spmd" debug compare "$work/one" "$work/many" --tolerance "$tolerance" || code=$?
# The stream of tokens is the same in every mode.
hashes() { grep -o '"token_hash":"[0-9a-f]*"' "$1/metrics.jsonl"; }
if [ "$mode" != broken:loss_sum ]; then
  [ "$(hashes "$work/one" | wc -l)" -eq 20 ]
  diff <(hashes "$work/one") <(hashes "$work/many")
fi
case $mode in
  broken:*)
    [ "$code" -eq 5 ] || { echo "the broken run was not noticed (exit code $code)"; exit 1; }
    echo "the broken run was noticed" ;;
  *) exit "$code" ;;
esac
