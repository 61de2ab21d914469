#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The data stream through a restart: mixed sources, a curriculum, skipped positions, packing and
# balance. A run on one rank is killed behind step 10 and goes on on other layouts, and ends as the
# one that was left alone. The mixture's state left out of the resume must show.
# Usage: stream.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4
. "$(dirname "$0")/restart.sh"
mapfile -t common < <(restart_settings)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
deck=$inputs/gpt2-tiny.toml bad=0

# Three sources of unlike size, of lines from a word to longer than a sequence.
for source in one two three; do
  awk -v seed="${#source}$source" -v lines=$((${#source} * 150)) 'BEGIN {
    srand(length(seed) * 7919)
    for (i = 0; i < lines; ++i) {
      words = int(exp(rand() * 4.2)); text = ""
      for (w = 0; w < words; ++w) text = text sprintf("%c%d ", 97 + int(rand() * 26), rand() * 900)
      print text
    }
  }' >"$work/$source.txt"
done
{
  printf '[build]\noutput = "%s"\nheld_out = 0.1\nshard_mib = 0.02\n' "$work/store"
  for source in one two three; do
    printf '[[source]]\nname = "%s"\npaths = ["%s"]\ndocuments = "line"\n' $source "$work/$source.txt"
  done
} >"$work/corpus.toml"
"$bin/espalier" corpus build "$work/corpus.toml" >"$work/corpus.log" 2>&1 ||
  { cat "$work/corpus.log"; exit 1; }
common+=(data.source=files "data.train=[\"$work/store\"]" "data.validation=[\"$work/store\"]"
  model.vocab_size=257)

# stream NAME CONTROL [key=value ...]: CONTROL is the hook that must show, or none.
stream() {
  local name=$1 control=$2 code layout hook
  shift 2
  start 1 "$work/one" "$deck" "${common[@]}" "$@" || { cat "$work/one.log"; exit 1; }
  ESPALIER_TEST_KILL=save.retention:0 start 1 "$work/first" "$deck" "${common[@]}" "$@" || true
  for layout in "2 grid.data_parallel=2" "4 grid.data_parallel=4" \
    "4 grid.data_parallel=2 grid.tensor_parallel=2" $control; do
    hook=
    [ "$layout" = "$control" ] && hook=$control layout="2 grid.data_parallel=2"
    rm -rf "$work/many" "$work/many".*
    cp -r "$work/first" "$work/many"
    code=0
    # shellcheck disable=SC2086  # the words of a layout
    ESPALIER_TEST_BREAK=$hook start ${layout%% *} "$work/many" "$deck" --resume "${common[@]}" "$@" \
      ${layout#* } || code=$?
    expect_end "$name" "$hook" " on $layout" "$work/one" "$work/many" $code
  done
  rm -rf "$work"/one* "$work"/first*
}

stream mixed resume_mixture 'data.weights=["one = 3", "two = 2", "three = 1"]' \
  'data.curriculum=["7: one = 0, two = 1, three = 1", "14: one = 1, two = 1, three = 0"]' \
  'data.skip=[[5, 9], [70, 90], [130, 131]]'
stream packed "" data.packing=best_fit data.balance=attention data.workers=3 data.temperature=3.0
stream merged "" data.packing=best_fit data.long_documents=drop 'data.skip=[[100, 120]]'
exit $((bad > 0))
