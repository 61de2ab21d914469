#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From any layout to any other: ten steps on one, a crash, ten more steps on another must end with
# the bytes of twenty steps on one rank.
# Usage: pairs.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS WORK ACTION FAMILY [PART PARTS]
#   first  the undisturbed run on one rank, and the first ten steps on every layout; all their
#          checkpoints must be the same bytes
#   all    the second ten steps of every PARTS-th ordered pair of layouts from PART on
#   ring   the same for each layout and the one behind it in the table only
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 work=$5 action=$6 family=$7
. "$(dirname "$0")/restart.sh"
mapfile -t common < <(restart_settings)
mapfile -t layouts < <(grep -vE '^(#|$)' "$here/layouts.txt")
deck=$inputs/$family-tiny.toml
case $family in
  gpt2) common+=(model.num_layers=4 model.num_heads=8) ;;
  llama) common+=(model.num_layers=4 model.num_heads=8 numerics.compute_type=bf16) ;;
  rounded) # bf16 weights without a master
    deck=$inputs/llama-tiny.toml
    common+=(model.num_layers=4 model.num_heads=8 numerics.compute_type=bf16
      numerics.master_type=bf16) ;;
  cohere) common+=(model.num_layers=4 numerics.compute_type=fp16 numerics.loss_scale_initial=65536
    numerics.loss_scale_growth_steps=3) ;;
  *) echo "pairs.sh: no family '$family'" >&2; exit 2 ;;
esac
state=checkpoints/step-0000000010/state.h5

begin() { # INDEX FOLDER [word ...]: the layout of that line
  local words
  read -r -a words <<<"${layouts[$1]}"
  split_words "${words[@]:1}"
  start "${words[0]}" "$2" "$deck" "${@:3}" "${common[@]}" "${grid[@]}"
}

first() {
  local i code bad=0
  rm -rf "$work"
  mkdir -p "$work"
  begin 0 "$work/one" || { cat "$work/one.log"; exit 1; }
  for i in "${!layouts[@]}"; do
    # Killed when the checkpoint of step 10 is whole; rank 0 is the one that publishes it.
    code=0
    ESPALIER_TEST_KILL=save.retention:0 begin "$i" "$work/first-$i" checkpoint.mode=synchronous ||
      code=$?
    if [ $code -eq 0 ] || [ -e "$work/first-$i/checkpoints/step-0000000020" ]; then
      echo "FAILED    ${layouts[$i]}: it was not killed"
      bad=$((bad + 1))
    elif ! cmp "$work/first-0/$state" "$work/first-$i/$state"; then
      echo "DIFFERENT ${layouts[$i]}: the checkpoint of step 10"
      tail -n 5 "$work/first-$i.log"
      bad=$((bad + 1))
    fi
  done
  echo "${#layouts[@]} layouts, $bad of them wrong"
  [ $bad -eq 0 ]
}

second() { # FROM TO
  local folder=$work/from-$1-to-$2 code=0
  cp -r "$work/first-$1" "$folder"
  begin "$2" "$folder" --resume || code=$?
  judge_end "[${layouts[$1]}] -> [${layouts[$2]}]" "$work/one" "$folder" $code || return 1
  rm -rf "$folder" "$folder".*
}

all() { # PART PARTS
  local from to number=0 count=0 bad=0
  for from in "${!layouts[@]}"; do
    for to in "${!layouts[@]}"; do
      number=$((number + 1))
      [ $((number % $2)) -eq $(($1 % $2)) ] || continue
      count=$((count + 1))
      second "$from" "$to" || bad=$((bad + 1))
    done
  done
  echo "$count pairs of layouts, $bad of them wrong"
  [ $count -gt 0 ] && [ $bad -eq 0 ]
}

ring() {
  local from bad=0
  for from in "${!layouts[@]}"; do
    second "$from" $(((from + 1) % ${#layouts[@]})) || bad=$((bad + 1))
  done
  echo "${#layouts[@]} pairs of layouts, $bad of them wrong"
  [ $bad -eq 0 ]
}

case $action in
  first) first ;;
  all) all "$8" "$9" ;;
  ring) ring ;;
  *) echo "pairs.sh: no action '$action'" >&2; exit 2 ;;
esac
