#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The fast mode on many layouts (fast.txt): the losses of 20 steps must be those of one rank to a
# bound, and the tokens the same.
# Usage: fast.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS FAMILY TYPE
# Bounds of the relative difference of a loss, as espalier validate has them (docs/validate.md):
#   fp32  1e-5
#   bf16  u sqrt(2 layers + 2) / 2 with u = 2^-8: each block adds to the stream twice, embedding
#         and output once, each time rounded; updates let the differences grow
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 family=$5 type=$6
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=validation/layouts/layouts.sh
. "$here/layouts.sh"
steps=20 layers=4
mapfile -t common < <(common_settings)
common+=(numerics.reproducible=false "numerics.compute_type=$type" "model.num_layers=$layers"
  optimizer.learning_rate=0.001 optimizer.gradient_clip=1.0)
[ "$family" = cohere ] || common+=(model.num_heads=8)
case $type in
  fp32) bound=1e-5 ;;
  bf16) bound=$(awk -v n=$layers 'BEGIN { print 2 ^ -8 * sqrt(2 * n + 2) / 2 }') ;;
  *) echo "fast.sh: no bound for $type" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0 count=0

while read -r ranks words; do
  read -r -a words <<<"$words"
  split_words "${words[@]}"
  rm -rf "${folder:?}"/many*
  code=0 most=
  one=$folder/one-${#arithmetic[@]} # at most one line of the table has keys of the arithmetic
  [ -d "$one" ] ||
    train 1 "$one" "$inputs/$family-tiny.toml" "${common[@]}" "${arithmetic[@]}" || code=$?
  train "$ranks" "$folder/many" "$inputs/$family-tiny.toml" "${common[@]}" "${arithmetic[@]}" \
    "${grid[@]}" || code=$?
  if [ $code -eq 0 ] && is_whole "$one" && is_whole "$folder/many"; then
    most=$(loss_difference "$one" "$folder/many")
  fi
  if [ -n "$most" ] && awk -v d="$most" -v b="$bound" 'BEGIN { exit !(d <= b) }'; then
    echo "close  $most  $family $type $ranks ${words[*]}"
  else
    echo "WRONG  ${most:-exit code $code}, $bound is allowed  $family $type $ranks ${words[*]}"
    cat "$one.command" "$folder/many.command"
    tail -n 3 "$folder/many.log"
    bad=$((bad + 1))
  fi
  count=$((count + 1))
done < <(grep -v '^#' "$here/fast.txt")
echo "$count layouts, $bad of them wrong"
[ $count -gt 0 ] && [ $bad -eq 0 ]
