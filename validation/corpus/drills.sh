#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Drills of corpus builds: whatever happens to one, it ends with the bytes of the undisturbed one
# on a single process, or says what is wrong.
# Usage: drills.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG REFERENCES WORK ACTION [ARGUMENT ...]
#   reference   the inputs, the decks, and the stores that all others are compared with
#   ranks       equal bytes on 1 to 4 ranks
#   kills       killed at each phase, on each rank, and going on with another number of ranks
#   random SEED N   killed at random; ESPALIER_DRILL_SEED and ESPALIER_DRILL_TRIALS win
#   fail        an error on one rank
#   storage     full and read-only disks: exit code 77 where nothing can be mounted
#   changes     two builds at once; other decks, other inputs; stores that are there
#   damage      flipped bytes, and held-out text among the training text
#   cleanup     removes what the trials that went right have left
#   controls    builds that are wrong on purpose must be noticed
#   verbs       exit codes and messages of espalier corpus
set -euo pipefail
bin=$1 launcher=$2 flag=$3 references=$4 work=$5 action=$6
shift 6
here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
for file in kills changes storage damage verbs; do
  . "$here/$file.sh"
done
near=$work/near.toml plain=$work/plain.toml

# near.toml takes duplicates out; plain.toml does not, and has subwords.
reference() {
  local deck
  rm -rf "$work"
  mkdir -p "$work"
  make_inputs "$work/inputs"
  make_deck "$work/inputs" >"$near"
  { make_deck "$work/inputs" | sed 's/^deduplicate.*/deduplicate = "none"/; /^similarity/d; /^shingle/d'
    printf '[tokenizer]\nkind = "huggingface"\npath = "%s"\n' "$tokenizer"; } >"$plain"
  folder=$work/reference
  for deck in near plain; do
    trial $deck
    build 0 "$work/$deck.toml"
    must_exit 0
    [ "$(find "$store/train" -name '*.tok' | wc -l)" -ge 30 ] || fault "too few pieces"
    [ $is_bad = no ] || { cat "$run.said"; exit 1; }
    mv "$store" "$work/$deck.store"
  done
  grep -q 'dropped [1-9][0-9]* equal and [1-9]' "$folder/trial-1.said" ||
    { echo "no duplicates"; exit 1; }
}

drill_ranks() {
  local ranks deck
  for deck in near plain; do
    for ranks in 1 2 3 4; do
      trial "$deck on $ranks ranks"
      build $ranks "$work/$deck.toml"
      must_equal "$work/$deck.store"
      conclude
    done
  done
}

[[ $action =~ ^(reference|cleanup)$ ]] || [ "$(type -t "drill_$action" || true)" = function ] ||
  { echo "drills.sh: no action '$action'" >&2; exit 2; }
if [ "$action" = reference ]; then
  reference
  exit
fi
if [ "$action" = cleanup ]; then
  find "$work" -mindepth 2 -maxdepth 2 -name 'trial-*' ! -path '*/reference/*' | grep -q . ||
    rm -rf "$work"
  exit
fi
folder=$work/$action
rm -rf "$folder"
mkdir -p "$folder"
"drill_$action" "$@"
echo "$action: $trials trials, $bad of them wrong"
[ $trials -gt 0 ] && [ $bad -eq 0 ]
