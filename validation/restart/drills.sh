#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fault drills: whatever happens to a run or to its checkpoints, the resumed run must end with the
# bytes of the undisturbed one, or say what is wrong. Two ranks, a tiny model.
# Usage: drills.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS WORK ACTION [ARGUMENT ...]
#   reference        the undisturbed run that all others are compared with
#   control          drills/again.sh: that the comparison notices a run that resumed wrongly
#   phases MODE      drills/kills.sh: killed at each phase of a save
#   fail             drills/kills.sh: an error at each phase of a save
#   random SEED N    drills/kills.sh: killed at random; ESPALIER_DRILL_SEED and
#                    ESPALIER_DRILL_TRIALS of the environment win
#   flips PART PARTS, truncation     drills/damage.sh
#   full, readonly   drills/storage.sh: exit code 77 where nothing can be mounted
#   two_jobs, signals                drills/jobs.sh: also time limits
#   again            drills/again.sh: resumed at the end, with another deck, from another folder
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 work=$5 action=$6
shift 6
. "$(dirname "$0")/restart.sh"
. "$here/drills/common.sh"
for file in kills damage storage jobs again; do
  . "$here/drills/$file.sh"
done

reference() {
  rm -rf "$work"
  mkdir -p "$work"
  RESTART_SECONDS=60 start 1 "$work/one" "$deck" "${common[@]}" checkpoint.keep_last=100 ||
    { cat "$work/one.log"; exit 1; }
  judge_end reference "$work/one" "$work/one" 0
}

[ "$(type -t "drill_$action" || true)" = function ] || [ "$action" = reference ] ||
  { echo "drills.sh: no action '$action'" >&2; exit 2; }
if [ "$action" = reference ]; then
  reference
  exit
fi
folder=$work/$action${1:+-$1}
rm -rf "$folder"
mkdir -p "$folder"
"drill_$action" "$@"
echo "$action: $trials trials, $bad of them wrong"
[ $trials -gt 0 ] && [ $bad -eq 0 ]
