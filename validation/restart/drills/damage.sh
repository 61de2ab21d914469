# SPDX-License-Identifier: Apache-2.0
# Drills of checkpoints that are damaged: flipped bits, files cut off, missing or exchanged.
# Sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

newest=$(step_folder 15)

# A run that was killed when the checkpoint of step 15 was whole; that of step 10 is there, too.
prepare_damage() {
  local code=0
  run=$folder/prepared
  ESPALIER_TEST_KILL=save.retention:0:3 start $ranks "$run" "$deck" "${common[@]}" \
    checkpoint.mode=synchronous || code=$?
  if [ $code -eq 0 ] || ! is_good 15 || ! is_good 10; then
    cat "$run.log"
    exit 1
  fi
}

begin_damaged() { # NAME
  trial "$1"
  cp -r "$folder/prepared" "$run"
}

verify() {
  verdict=0
  "$bin/espalier" checkpoint verify "$run" >"$run.verify" 2>&1 || verdict=$?
}

# must_be_named FILE [TENSOR]: the damage is seen and named by verify and by a run, which goes on
# from the checkpoint before where the deck says so.
must_be_named() {
  [ "$verdict" -eq 4 ] || fault "verify ends with $verdict: $(head -n 3 "$run.verify")"
  grep -qF -- "$1" "$run.verify" || fault "verify does not name $1: $(cat "$run.verify")"
  go --resume checkpoint.on_damage=stop
  must_exit 4
  must_have_one_error
  grep '^error:' -A 9 "$run.said" | grep -qF -- "$newest" ||
    fault "the message does not name $newest"
  grep '^error:' -A 9 "$run.said" | grep -qF -- "${2:-$1}" ||
    fault "the message does not name ${2:-$1}"
  must_say 'on_damage = "previous"'
  go --resume checkpoint.on_damage=previous
  must_resume_at 10
  must_say '^warning: .*'
  must_end_right
}

# What is seen by nobody must not matter.
must_be_harmless() {
  [ "$verdict" -eq 0 ] || fault "verify ends with $verdict: $(head -n 3 "$run.verify")"
  go --resume checkpoint.on_damage=stop
  must_resume_at 15
  must_end_right
}

# flip FILE OFFSET BIT
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ (1 << $3))))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# The datasets of the state file: FIRST BYTES NAME, of the bytes of their data. Empty without
# h5dump.
datasets() {
  command -v h5dump >/dev/null || return 0
  h5dump -H -p "$1" | awk '
    { if ($1 == "GROUP" || $1 == "DATASET") name[depth] = $2
      if ($1 == "OFFSET") {
        path = ""
        for (d = 1; d < depth; ++d) if (name[d] != "") path = path "/" name[d]
        gsub(/"/, "", path)
        sub(/^\/\//, "", path); sub(/^\//, "", path)
        print $2, size, path
      }
      if ($1 == "SIZE") size = $2
      opened = gsub(/\{/, "{"); closed = gsub(/\}/, "}")
      for (d = depth + 1; d < depth + opened; ++d) name[d] = ""
      if (opened && $1 != "GROUP" && $1 != "DATASET") name[depth] = ""
      depth += opened - closed }' | sort -n
}

# Places to flip, a line each: FILE OFFSET WHAT. Spread over the whole file, and in each kind of
# part: the superblock, headers of objects, attributes, data of tensors, history, manifest.
flip_places() {
  local state=$folder/prepared/$newest/state.h5 manifest=$folder/prepared/$newest/manifest.json
  local size i at first bytes name
  size=$(stat -c %s "$state")
  for ((i = 0; i < 60; ++i)); do echo "state.h5 $(((2 * i + 1) * size / 120)) spread"; done
  for at in 0 8 9 12 20 28 36 44; do echo "state.h5 $at superblock"; done
  grep -abo OHDR "$state" | cut -d: -f1 | awk 'NR % 30 == 1' | while read -r at; do
    for i in 0 5 23 60; do echo "state.h5 $((at + i)) header"; done
  done
  for name in next_sequence format_version loss_scale optimizer_updates checksum; do
    at=$(grep -abo "$name" "$state" | head -n 1 | cut -d: -f1)
    for i in 1 $((${#name} + 24)); do
      echo "state.h5 $((at + i)) attribute_$name"
    done
  done
  grep -v history/ "$folder/datasets" | awk 'NR % 14 == 7' | while read -r first bytes name; do
    for at in "$first" $((first + bytes / 2)) $((first + bytes - 1)); do
      echo "state.h5 $at data"
    done
  done
  grep -E 'history/(loss|token_hash|skipped|validation_loss)$' "$folder/datasets" |
    while read -r first bytes name; do
      echo "state.h5 $first history"
      echo "state.h5 $((first + bytes - 1)) history"
    done
  size=$(stat -c %s "$manifest")
  for at in 0 60 $((size / 2)) $((size - 30)) $((size - 8)) $((size - 1)); do
    echo "manifest.json $at manifest"
  done
}

# The dataset whose data hold a byte of the state file, or nothing.
dataset_at() {
  awk -v at="$1" '$1 <= at && at < $1 + $2 { print $3 }' "$folder/datasets"
}

drill_flips() { # PART PARTS
  local file at what number=0 harmless=0 tensor
  prepare_damage
  datasets "$folder/prepared/$newest/state.h5" >"$folder/datasets"
  [ -s "$folder/datasets" ] || echo "no h5dump: whether messages name the tensor is not looked at"
  seed_draws 7
  while read -r file at what; do
    draw 8
    number=$((number + 1))
    [ $((number % $2)) -eq $(($1 % $2)) ] || continue
    ranks=$((1 + number / 2 % 2)) tensor=""
    [ "$file" != state.h5 ] || tensor=$(dataset_at "$at")
    begin_damaged "bit $drawn of byte $at of $file ($what${tensor:+, $tensor})"
    flip "$run/$newest/$file" "$at" "$drawn"
    ! cmp -s "$folder/prepared/$newest/$file" "$run/$newest/$file" || fault "nothing was flipped"
    verify
    if [ "$verdict" -eq 0 ] && [ -z "$tensor" ] && [ "$file" = state.h5 ]; then
      harmless=$((harmless + 1))
      echo "harmless  $name"
      must_be_harmless
    else
      must_be_named "$file" "$tensor"
      [ -z "$tensor" ] || grep -qF "$tensor" "$run.verify" || fault "verify does not name $tensor"
    fi
    conclude
  done < <(flip_places)
  echo "$harmless flips without effect"
}

# damaged NAME FILE COMMAND ...: the command, in the folder of the newest checkpoint, damages it.
damaged() {
  begin_damaged "$1"
  (cd "$run/$newest" && "${@:3}")
  verify
  must_be_named "$2"
  conclude
}

empty() { rm -f ./*; }

drill_truncation() {
  local size length
  prepare_damage
  size=$(stat -c %s "$folder/prepared/$newest/state.h5")
  for length in 0 1 8 48 100 512 4096 32768 262144 1048576 $((size - 100)) $((size - 1)) \
    $((size + 1)); do
    damaged "state.h5 of $length bytes" state.h5 truncate -s "$length" state.h5
  done
  size=$(stat -c %s "$folder/prepared/$newest/manifest.json")
  for length in 0 1 8 64 512 2048 $((size - 18)) $((size - 2)) $((size - 1)) $((size + 1)); do
    damaged "manifest.json of $length bytes" manifest.json truncate -s "$length" manifest.json
  done
  damaged "no state.h5" state.h5 rm state.h5
  damaged "no manifest.json" manifest.json rm manifest.json
  damaged "an empty folder" manifest.json empty
  begin_damaged "the state of another checkpoint"
  cp "$run/$(step_folder 10)/state.h5" "$run/$newest/state.h5"
  verify
  must_be_named state.h5 "files of two checkpoints were mixed"
  conclude
  damaged "a folder for a state file" state.h5 eval 'rm state.h5; mkdir state.h5'
  damaged "a link that leads nowhere" state.h5 ln -sf nowhere state.h5
  for what in rm 'truncate -s 0' 'truncate -s 5'; do
    begin_damaged "latest: $what"
    $what "$run/checkpoints/latest"
    verify
    must_be_harmless
    conclude
  done
}
