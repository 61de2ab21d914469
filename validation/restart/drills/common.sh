# SPDX-License-Identifier: Apache-2.0
# What all drills share; sourced by drills.sh.
# shellcheck shell=bash disable=SC2034,SC2154

deck=$inputs/gpt2-tiny.toml
ranks=2 trials=0 bad=0
phases=(save.copy save.begin save.slabs save.close save.manifest save.rename save.latest
  save.retention)
mapfile -t common < <(restart_settings)
common+=(checkpoint.interval=5)
export RESTART_SECONDS=${RESTART_SECONDS:-60}

# trial NAME: begins one; its run is in the folder $run.
trial() {
  name=$1
  trials=$((trials + 1))
  run=$folder/trial-$trials
  is_bad=no
}

# fault TEXT: the trial went wrong.
fault() {
  echo "WRONG     $name: $1"
  [ $is_bad = yes ] || tail -n 6 "$run.log" 2>/dev/null | sed 's/^/  | /' || true
  is_bad=yes
}

# Ends the trial; the folders of a bad one stay.
conclude() {
  if [ $is_bad = yes ]; then
    bad=$((bad + 1))
    echo "  $(cat "$run.command" 2>/dev/null || true)"
    echo "  kept: $run"
  else
    rm -rf "$run" "$run".*
  fi
}

# go [--resume ...] [key=value ...]: runs in $run; leaves the exit code in $code, and in $run.said
# what this run said, without what earlier ones did.
go() {
  local before=0
  [ ! -e "$run.log" ] || before=$(wc -l <"$run.log")
  code=0
  start $ranks "$run" "$deck" "${common[@]}" "$@" || code=$?
  tail -n +$((before + 1)) "$run.log" >"$run.said"
  [ $code -ne 124 ] && [ $code -ne 137 ] || fault "it hung"
}

# go_beside [--resume ...] [key=value ...]: the same in the background, until `ended`.
go_beside() {
  rm -f "$run/ranks.txt" # another run's processes
  go_before=0
  [ ! -e "$run.log" ] || go_before=$(wc -l <"$run.log")
  start $ranks "$run" "$deck" "${common[@]}" "$@" &
  job=$!
}

ended() {
  code=0
  wait "$job" 2>/dev/null || code=$?
  tail -n +$((go_before + 1)) "$run.log" >"$run.said"
  [ $code -ne 124 ] && [ $code -ne 137 ] || fault "it hung"
}

# await COMMAND ...: until it succeeds; fails when the job is over or after 20 s.
await() {
  local i
  for ((i = 0; i < 2000; ++i)); do
    if "$@" 2>/dev/null; then return 0; fi
    kill -0 "$job" 2>/dev/null || return 1
    sleep 0.01
  done
  return 1
}

has_ranks() { [ -e "$run/ranks.txt" ] && [ "$(wc -l <"$run/ranks.txt")" -eq $((ranks + 1)) ]; }
has_step() { grep -qs "\"kind\":\"step\",\"step\":$1," "$run/metrics.jsonl"; }

# The process of a rank, or of all.
process() { awk -v rank="${1:-all}" 'NR > 1 && (rank == "all" || $1 == rank) { print $2 }' \
  "$run/ranks.txt"; }

# said PATTERN: whether this run's words match
said() { grep -qE -- "$1" "$run.said"; }
must_say() { said "$1" || fault "it does not say: $1"; }
must_exit() { [ "$code" -eq "$1" ] || fault "exit code $code, not $1"; }
# One clear message and no other.
must_have_one_error() {
  [ "$(grep -c '^error:' "$run.said")" -eq 1 ] ||
    fault "$(grep -c '^error:' "$run.said") messages, not one"
}

# Where the last run went on: a step, or 0.
resumed_step() {
  sed -nE 's/^  *resume  .*: step ([0-9]+) of .*|^resume  .*: step ([0-9]+) of .*/\1\2/p' \
    "$run.said" | head -n 1 | grep . || echo 0
}
must_resume_at() {
  local at
  at=$(resumed_step)
  [ "$at" -eq "$1" ] || fault "it went on from step $at, not $1"
}
must_end_right() { judge_end "$name" "$work/one" "$run" $code || is_bad=yes; }

step_folder() { printf 'checkpoints/step-%010d' "$1"; }
part_folder() { printf 'checkpoints/.step-%010d.part' "$1"; }
latest() { cat "$run/checkpoints/latest" 2>/dev/null || true; }
# Whether the checkpoint of a step is whole and has the bytes of the undisturbed run's.
is_good() {
  [ -e "$run/$(step_folder "$1")/manifest.json" ] &&
    cmp -s "$work/one/$(step_folder "$1")/state.h5" "$run/$(step_folder "$1")/state.h5"
}

# draw N: a number below N in $drawn; the same sequence for the same seed (Park and Miller 1988).
# Not by a subshell, which would forget the state.
seed_draws() { draw_state=$((($1 * 48271 + 11) % 2147483647)); draw 2; draw 2; draw 2; }
draw() {
  draw_state=$((draw_state * 16807 % 2147483647))
  [ $draw_state -ne 0 ] || draw_state=1
  drawn=$((draw_state % $1))
}
pick() { # WORD ...: one of them in $drawn
  draw $#
  shift "$drawn"
  drawn=$1
}
