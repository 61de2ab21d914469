# SPDX-License-Identifier: Apache-2.0
# Drills of two jobs on one run folder, of signals and of the time limit; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# What a second job would spoil: everything of the first one's folder but what the first writes.
fixed_files() { (cd "$run" && sha256sum deck.toml ranks.txt checkpoints/step-0000000005/*); }

drill_two_jobs() { # the first holds the folder while it saves step 10
  local words before mode
  for mode in synchronous asynchronous; do
    for words in "" --resume --overwrite --resume=step-0000000005; do
      trial "$mode, a second job with '$words'"
      [ "$words" != --resume=step-0000000005 ] || words="--resume=$run/$(step_folder 5)"
      ESPALIER_TEST_PAUSE=save.manifest:900 go_beside "checkpoint.mode=$mode"
      await is_good 5 && await has_trace save.manifest 10 1 || fault "it does not save step 10"
      before=$(fixed_files)
      second "$words"
      kill -0 "$job" 2>/dev/null || fault "the first job is over"
      [ "$before" = "$(fixed_files)" ] || fault "the second job changed the folder"
      ended
      must_end_right
      conclude
    done
  done
  for words in "" --resume; do
    trial "the lock of a killed job, $words"
    ESPALIER_TEST_PAUSE=save.manifest:900 go_beside
    await has_trace save.manifest 5 1 || fault "it does not save step 5"
    process | xargs -r kill -9 2>/dev/null || true
    ended
    go $words
    if [ -n "$words" ]; then
      must_end_right
    else
      must_exit 3
      must_say '^error: .*already holds a run.*--resume'
    fi
    conclude
  done
}

# A second job on the run folder of the trial, refused.
second() { # WORD
  local said=$run.second code=0
  "$launcher" "$flag" $ranks "$bin/espalier-spmd" train "$deck" ${1:+"$1"} --set \
    "run.directory=$run" --set monitor.peak_gflops=100 </dev/null >"$said" 2>&1 || code=$?
  [ $code -eq 3 ] || fault "the second job ends with $code: $(tail -n 3 "$said")"
  grep -qE "^error: .*in use by process $(process 0) on $(uname -n) since" "$said" ||
    fault "the second job does not name the first: $(cat "$said")"
}

# The launcher of the job: start -> timeout -> launcher.
launcher_process() { pgrep -P "$(pgrep -P "$job")"; }

# Stopped by a signal to a rank, to all, or to the launcher.
signal() { # SIGNAL WHOM MODE
  local at
  trial "SIG$1 to $2, $3"
  ESPALIER_TEST_PAUSE=save.rename:200 go_beside "checkpoint.mode=$3"
  await has_step 7 || fault "it does not come to step 7"
  case $2 in
    launcher) launcher_process ;;
    *) process "$2" ;;
  esac | xargs -r kill "-$1"
  ended
  # MPICH's launcher, signalled itself, returns 0 now and then whatever its ranks return.
  if [ "$2" != launcher ] || [ "$code" -ne 0 ]; then must_exit 75; fi
  tail -n 1 "$run/metrics.jsonl" | grep -q "^{\"kind\":\"end\",\"reason\":\"SIG$1\"" ||
    fault "the metrics do not end with the signal"
  must_say "^stopped  .*SIG$1: step [0-9]+ of 20 is saved"
  ! grep -q '^error:' "$run.said" || fault "an error is told"
  at=$(sed -nE 's/^stopped  .*: step ([0-9]+) of 20.*/\1/p' "$run.said")
  [ "$(latest)" = "$(basename "$(step_folder "${at:-0}")")" ] || fault "latest is $(latest)"
  ! has_step $((at + 1)) || fault "it went on behind the checkpoint"
  go --resume
  must_resume_at "${at:-0}"
  must_end_right
  conclude
}

drill_signals() {
  local mode kind whom
  for mode in synchronous asynchronous; do
    for kind in USR1 TERM; do
      for whom in 0 $((ranks - 1)) all; do signal $kind $whom $mode; done
    done
  done
  signal USR1 launcher asynchronous
  drill_deadly_signals
  drill_time_limit
}

drill_deadly_signals() {
  local kind
  for kind in USR1 TERM; do
    trial "SIG$kind where the deck says die"
    ESPALIER_TEST_PAUSE=save.begin:500 go_beside checkpoint.on_signal=die \
      checkpoint.mode=synchronous
    await has_step 10 || fault "it does not come to step 10"
    process 1 | xargs -r kill "-$kind"
    ended
    [ "$code" -ne 0 ] && [ "$code" -ne 75 ] || fault "exit code $code"
    ! has_step 20 || fault "it did not die"
    go --resume
    must_resume_at 5
    must_end_right
    conclude
  done
}

# A limit in which only a part can be done, job after job, until it is done. Each save takes long.
drill_time_limit() {
  local jobs=0
  trial "a time limit"
  code=75
  while [ $code -eq 75 ] && [ $jobs -lt 25 ] && [ $is_bad = no ]; do
    ESPALIER_TEST_PAUSE=save.rename:150 go --resume run.time_limit=2.5 checkpoint.interval=1 \
      checkpoint.mode=synchronous
    jobs=$((jobs + 1))
    [ $code -ne 75 ] || must_say '^stopped  .*time limit: step [0-9]+ of 20 is saved'
  done
  [ $jobs -gt 1 ] || fault "the limit stopped nothing"
  echo "a time limit: $jobs jobs"
  must_end_right
  conclude
}
