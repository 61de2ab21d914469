# SPDX-License-Identifier: Apache-2.0
# Drills of a file system that is full or read-only; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# on_disk NAME OPTIONS: the store lies on a small file system of its own.
on_disk() {
  trial "$1"
  trap 'umount -l "$folder"/trial-*/disk 2>/dev/null || true' EXIT
  mkdir -p "$run/disk"
  mount -t tmpfs -o "$2" espalier "$run/disk" 2>/dev/null ||
    { echo "skipped: nothing can be mounted here, so no disk can be filled"; exit 77; }
  store=$run/disk/store
}

off_disk() { # REFERENCE
  must_exit 0
  diff -r "$1" "$store" >"$run.diff" 2>&1 || fault "it differs: $(head -n 4 "$run.diff")"
  [ "$(ls -A "$run/disk")" = store ] || fault "remains are left: $(ls -A "$run/disk")"
  umount "$run/disk"
  conclude
}

# Room for a part; then for all. What was finished in the small one is not read again.
fill() { # RANKS DECK SIZE
  local found
  on_disk "full disk of $3, $2 on $1 ranks" "size=$3"
  build "$1" "$work/$2.toml"
  must_exit 4
  must_have_one_error
  must_say '^error: .*(No space left on device|rank [0-9]+).*'
  must_say 'No space left on device.*(make room|free some space)'
  [ ! -e "$store" ] || fault "a store was made"
  found=$(finished_pieces)
  build "$1" "$work/$2.toml"
  must_exit 4
  mount -o remount,size=40m "$run/disk"
  [ "$(finished_pieces)" -ge "$found" ] || fault "pieces were lost"
  found=$(finished_pieces)
  build 2 "$work/$2.toml"
  must_go_on "$found"
  off_disk "$work/$2.store"
}

drill_storage() {
  fill 2 plain 700k
  fill 0 near 1m
  fill 3 near 2200k
  on_disk "a read-only disk" size=8m
  mount --bind "$run/disk" "$run/disk" && mount -o remount,bind,ro "$run/disk" ||
    fault "it cannot be mounted"
  build 2 "$near"
  [ "$code" -eq 3 ] || [ "$code" -eq 4 ] || fault "exit code $code"
  must_have_one_error
  must_say '^error: .*Read-only file system'
  umount "$run/disk"
  build 2 "$near"
  off_disk "$work/near.store"
}
