# SPDX-License-Identifier: Apache-2.0
# Drills of a file system that is full, or becomes read-only under the run; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# trial_on_disk NAME OPTIONS: the run's folder is a small file system of its own; what the run says
# stands outside. Skipped where nothing can be mounted.
trial_on_disk() {
  trial "$1"
  mkdir -p "$run"
  trap 'while umount -l "$run" 2>/dev/null; do :; done' EXIT
  mount -t tmpfs -o "$2" espalier "$run" 2>/dev/null ||
    { echo "skipped: nothing can be mounted here, so no disk can be filled"; exit 77; }
}

conclude_on_disk() {
  if [ $is_bad = yes ]; then cp -r "$run" "$run.kept" || true; fi
  umount "$run"
  trap - EXIT
  conclude
}

must_be_as_before() {
  is_good 5 || fault "the checkpoint before is gone or changed"
  [ "$(latest)" = step-0000000005 ] || fault "latest is $(latest)"
  ! find "$run/checkpoints" -name '.*' | grep -q . ||
    fault "remains are left: $(ls -A "$run/checkpoints")"
}

# Room for one checkpoint of 1.1 MiB and for the logs, not for two.
fill() { # MODE TRANSFER
  local words=("checkpoint.mode=$1" "checkpoint.transfer=$2" checkpoint.keep_last=1)
  trial_on_disk "full disk, $*" size=2m
  go "${words[@]}"
  must_exit 4
  must_have_one_error
  must_say '^error: .*step-0000000010.*No space left on device.*free some space'
  must_be_as_before
  go --resume "${words[@]}"
  must_exit 4
  must_resume_at 5
  must_be_as_before
  mount -o remount,size=8m "$run"
  go --resume "${words[@]}"
  must_resume_at 5
  must_end_right
  conclude_on_disk
}

# Waits until the checkpoint of step 5 is there and that of step 10 is at PHASE.
await_save() {
  await is_good 5 || fault "it does not save step 5"
  await has_trace "$1" 10 1 || fault "it does not come to $1"
}

# Another program takes the last bytes while step 10 is saved.
fill_late() { # MODE PHASE
  trial_on_disk "filled up at $2, $1" size=8m
  ESPALIER_TEST_PAUSE=$2:700 go_beside "checkpoint.mode=$1" checkpoint.keep_last=1
  await_save "$2"
  dd if=/dev/zero of="$run/filler" bs=4k status=none 2>/dev/null || true
  ended
  must_exit 4
  must_have_one_error
  must_say '^error: .*No space left on device'
  is_good 5 || is_good 10 || fault "no good checkpoint is left"
  rm "$run/filler"
  go --resume "checkpoint.mode=$1" checkpoint.keep_last=1
  must_end_right
  conclude_on_disk
}

drill_full() {
  local mode transfer phase
  for mode in synchronous asynchronous; do
    for transfer in independent collective automatic; do fill $mode $transfer; done
    for phase in save.begin save.manifest save.latest; do fill_late $mode $phase; done
  done
}

# The folder becomes read-only while step 10 is saved: a second, read-only view of it is laid over
# the first. (Its file system as a whole cannot be made so while files are open for writing.)
make_readonly() { # MODE PHASE
  trial_on_disk "read-only at $2, $1" size=16m
  ESPALIER_TEST_PAUSE=$2:700 go_beside "checkpoint.mode=$1" checkpoint.keep_last=1
  await_save "$2"
  mount --bind "$run" "$run" && mount -o remount,bind,ro "$run" || fault "it cannot be mounted"
  ended
  must_exit 4
  must_have_one_error
  must_say '^error: .*checkpoints.*Read-only file system'
  is_good 5 || is_good 10 || fault "no good checkpoint is left"
  go --resume "checkpoint.mode=$1" checkpoint.keep_last=1
  [ "$code" -eq 3 ] || [ "$code" -eq 4 ] || fault "still read-only, it ends with $code"
  must_have_one_error
  must_say '^error: .*Read-only file system'
  umount "$run"
  go --resume "checkpoint.mode=$1" checkpoint.keep_last=1
  must_end_right
  conclude_on_disk
}

drill_readonly() {
  local mode phase
  for mode in synchronous asynchronous; do
    for phase in save.begin save.manifest save.latest; do make_readonly $mode $phase; done
  done
}
