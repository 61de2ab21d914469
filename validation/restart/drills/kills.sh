# SPDX-License-Identifier: Apache-2.0
# Drills of runs that are killed or fail while they save; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# The ranks that pass a phase.
ranks_of_phase() {
  case $1 in
    save.copy | save.slabs | save.close) echo "0 $((ranks - 1))" ;;
    *) echo 0 ;;
  esac
}

# has_trace PHASE STEP RANK: whether the folder looks as it must when the run was killed there.
has_trace() {
  local part new
  part=$run/$(part_folder "$2") new=$run/$(step_folder "$2")
  has_step "$2" && ! has_step 20 || return 1
  case $1 in
    # That another rank is killed before its copy does not keep rank 0 from making the folder.
    save.copy) [ ! -e "$new" ] && { [ ! -e "$part" ] || [ "$3" -ne 0 ]; } ;;
    save.begin) [ ! -e "$new" ] && [ ! -e "$part" ] ;;
    save.slabs | save.close) # written by another name until it is closed
      [ ! -e "$new" ] && [ -n "$(ls -A "$part")" ] && [ ! -e "$part/state.h5" ] ;;
    save.manifest)
      [ ! -e "$new" ] && [ -e "$part/state.h5" ] && [ ! -e "$part/manifest.json" ] ;;
    save.rename) [ ! -e "$new" ] && [ -e "$part/manifest.json" ] ;;
    save.latest) [ -e "$new/manifest.json" ] && [ "$(latest)" != "$(basename "$new")" ] ;;
    save.retention) [ -e "$new/manifest.json" ] && [ "$(latest)" = "$(basename "$new")" ] ;;
  esac
}

# The step of the newest whole checkpoint when a save of STEP, one every five, died at PHASE.
whole_after() {
  case $1 in
    save.latest | save.retention) echo "$2" ;;
    *) echo $(($2 - 5)) ;;
  esac
}

# Goes on with a run that was killed at PHASE of the save of STEP, to the end.
finish_killed() { # PHASE STEP RANK MODE
  [ "$code" -ne 0 ] || fault "it was not killed"
  has_trace "$1" "$2" "$3" || fault "it did not die at $1 of step $2: $(ls -A "$run/checkpoints")"
  [ "$2" -eq 5 ] || [ "$1" = save.retention ] || is_good 5 || fault "the checkpoint before is gone"
  go --resume "checkpoint.mode=$4" checkpoint.keep_last=1
  must_resume_at "$(whole_after "$1" "$2")"
  must_end_right
}

drill_phases() { # MODE
  local mode=$1 phase rank nth
  for phase in "${phases[@]}"; do
    for rank in $(ranks_of_phase "$phase"); do
      for nth in 1 2; do
        trial "$mode, rank $rank killed at $phase of save $nth"
        ESPALIER_TEST_KILL=$phase:$rank:$nth go "checkpoint.mode=$mode" checkpoint.keep_last=1
        finish_killed "$phase" $((5 * nth)) "$rank" "$mode"
        conclude
      done
    done
    trial "$mode, all killed at $phase"
    ESPALIER_TEST_PAUSE=$phase:1500 go_beside "checkpoint.mode=$mode" checkpoint.keep_last=1
    await has_trace "$phase" 5 1 || fault "it does not come to $phase"
    process | xargs -r kill -9 2>/dev/null || true
    ended
    finish_killed "$phase" 5 1 "$mode"
    conclude
  done
}

# fail_at PHASE RANK MODE, in the second save
fail_at() {
  trial "$3, $1 fails on rank $2"
  ESPALIER_TEST_FAIL=$1:$2:2 go "checkpoint.mode=$3" checkpoint.keep_last=1
  must_say "failed at $1 on purpose"
  if [ "$1" = save.retention ]; then # the new checkpoint is safe: no reason to stop
    must_say '^warning: old checkpoints stay: '
    must_end_right
    conclude
    return
  fi
  must_exit 4
  must_have_one_error
  is_good 5 || fault "the checkpoint before is gone or changed"
  [ "$(latest)" = step-0000000005 ] || fault "latest is $(latest)"
  # Who fails before its copy ends the job, while rank 0 has made the folder already.
  [ "$1:$2" = "save.copy:$((ranks - 1))" ] || ! find "$run/checkpoints" -name '.*' | grep -q . ||
    fault "remains are left: $(ls -A "$run/checkpoints")"
  go --resume "checkpoint.mode=$3" checkpoint.keep_last=1
  must_resume_at "$(whole_after "$1" 10)"
  must_end_right
  conclude
}

drill_fail() {
  local phase rank mode
  for mode in synchronous asynchronous; do
    for phase in "${phases[@]}"; do
      for rank in $(ranks_of_phase "$phase"); do fail_at "$phase" "$rank" "$mode"; done
    done
  done
}

# kill_sometime WHICH MILLISECONDS [word ...]: a run of which a rank, or all, are killed after a
# time. Counts those that were killed before their end.
kill_sometime() {
  local which=$1 after=$2
  shift 2
  go_beside "$@"
  if await has_ranks; then
    sleep "$(printf '%d.%03d' $((after / 1000)) $((after % 1000)))"
    process "$which" | xargs -r kill -9 2>/dev/null || true
  fi
  ended
  [ $code -eq 0 ] || killed=$((killed + 1))
}

drill_random() { # SEED TRIALS
  local seed=${ESPALIER_DRILL_SEED:-$1} count=${ESPALIER_DRILL_TRIALS:-$2}
  local i start_ms span mode which pause kills chance words killed=0 attempts=0
  trial "undisturbed"
  start_ms=$(date +%s%3N)
  go checkpoint.interval=2
  span=$(($(date +%s%3N) - start_ms))
  must_end_right
  conclude
  for ((i = 0; i < count; ++i)); do
    seed_draws $((seed + i))
    pick synchronous asynchronous; mode=$drawn
    pick none none "${phases[@]}"; pause=$drawn
    draw 60; pause=$pause:$((5 + drawn))
    draw 2
    words=(checkpoint.interval=2 "checkpoint.mode=$mode" "checkpoint.keep_last=$((1 + drawn))")
    pick 0 1 2 3; words+=("grid.zero_stage=$drawn")
    trial "seed $((seed + i)), $mode, pause $pause, ${words[2]}, ${words[3]}"
    for ((kills = 0; kills < 3; ++kills)); do
      pick 0 $((ranks - 1)) all; which=$drawn
      draw "$span"
      ESPALIER_TEST_PAUSE=$pause kill_sometime "$which" "$drawn" --resume "${words[@]}"
      attempts=$((attempts + 1)) name+=", $which after $drawn ms"
      [ $code -ne 0 ] || break
      draw 100; chance=$drawn
      [ "$chance" -lt 50 ] || break
    done
    [ $code -eq 0 ] || go --resume "${words[@]}"
    must_end_right
    conclude
  done
  echo "$killed of $attempts were killed before their end (a run takes $span ms)"
  [ "$count" -lt 10 ] || [ $killed -ge $((count / 3)) ] || { trial "random"; fault "too few died"; }
}
