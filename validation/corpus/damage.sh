# SPDX-License-Identifier: Apache-2.0
# Drills of stores with a flipped byte, and of held-out text in the wrong place; sourced by
# drills.sh.
# shellcheck shell=bash disable=SC2154

# flip FILE OFFSET
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ (1 << ($2 % 7)))))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# A few bytes of every file of the store: verify names the file.
flips() { # DECK EVERY
  local file named size at count=0 ranks
  trial "flipped bytes of $1"
  cp -r "$work/$1.store" "$store"
  verify 2 "$store"
  [ "$verdict" -eq 0 ] || fault "the sound store: $(cat "$run.verify")"
  for file in $(cd "$store" && find . -type f | sort | awk -v every="$2" \
    'NR % every == 0 || /manifest|tokenizer/'); do
    file=${file#./}
    size=$(stat -c %s "$store/$file")
    for at in 0 $((size / 2)) $((size - 2)); do
      cp "$store/$file" "$run/sound"
      flip "$store/$file" "$at"
      count=$((count + 1)) ranks=0
      [ $((count % 15)) -ne 0 ] || ranks=2
      verify $ranks "$store"
      [ "$verdict" -eq 4 ] || fault "byte $at of $file: verify ends with $verdict"
      named=$file
      [ "${file%%/*}" != tokenizer ] || named=tokenizer # its files have one hash together
      grep -qF "$store/$named" "$run.verify" ||
        fault "byte $at of $file: $(head -n 2 "$run.verify")"
      cp "$run/sound" "$store/$file"
    done
  done
  rm "$run/sound"
  code=0
  must_equal "$work/$1.store"
  echo "$count bytes were flipped in $1"
  conclude
}

lost_files() {
  local file
  trial "lost files"
  cp -r "$work/plain.store" "$store"
  for file in manifest.json tokenizer train/prose-00001.tok validation/lines-00000.idx; do
    mv "$store/$file" "$run/aside"
    verify 2 "$store"
    [ "$verdict" -eq 4 ] || fault "without $file verify ends with $verdict"
    grep -q "${file%.*}" "$run.verify" || fault "without $file: $(cat "$run.verify")"
    mv "$run/aside" "$store/$file"
  done
  truncate -s -1 "$store/train/prose-00001.tok"
  verify 1 "$store"
  [ "$verdict" -eq 4 ] || fault "cut short: $verdict"
  conclude
}

# The same text split otherwise: what one build holds out, the other trains on.
held_out() {
  local trained
  trial "held-out text among the training text"
  build 2 "$plain" build.seed=9
  must_exit 0
  trained=("$launcher" "$flag" 2 "$bin/espalier-spmd" train "$(dirname "$references")/../../inputs/tiny.toml"
    --set "run.directory=$run/run" --set data.source=files --set "data.train=[\"$store\"]"
    --set "data.validation=[\"$work/plain.store\"]" --set monitor.validation_interval=1
    --set model.vocab_size=1000)
  code=0
  timeout 60 "${trained[@]}" </dev/null >"$run.said" 2>&1 || code=$?
  must_exit 4
  must_say 'is held out: it is document [0-9]+ of .*and held-out text must not be trained on'
  # One store that says of itself what is not so.
  sed -i 's/^  "seed": 9$/  "seed": 3/' "$store/manifest.json"
  verify 2 "$store"
  [ "$verdict" -eq 4 ] || fault "verify ends with $verdict"
  conclude
}

drill_damage() {
  flips near 11
  flips plain 17
  lost_files
  held_out
}
