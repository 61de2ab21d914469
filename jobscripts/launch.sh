#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts one training run inside a batch job; shared by slurm/ and pbs/, which only ask for
# resources. Everything that differs between sites comes from a file of sites/.
#
# Usage: launch.sh DECK [espalier arguments ...], with in the environment
#   ESPALIER_SITE        site file (default: sites/site.env beside this script)
#   ESPALIER_RANKS       ranks in all (default: what the batch system granted)
#   ESPALIER_DRY_RUN=1   print the launch line and stop: no module is loaded, nothing is started
#   ESPALIER_REQUEUE     command that puts the job back into the queue when the run has saved and
#                        stopped before its end (exit code 75); unset: the job ends. Set it only for
#                        runs that go on from a checkpoint (--resume among the arguments).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() { printf 'launch.sh: %s\n' "$*" >&2; exit 3; }

[ $# -ge 1 ] || die "no deck; usage: launch.sh DECK [--set section.key=value ...]"
deck=$1
shift
[ -r "$deck" ] || die "$deck cannot be read; give the deck's path from the folder of submission"

site=${ESPALIER_SITE:-$here/sites/site.env}
[ -r "$site" ] || die "$site is missing; copy sites/example.env to it and fill it in, or set
  ESPALIER_SITE to your site's file"
# shellcheck source=jobscripts/sites/example.env
. "$site"

for name in SITE_LAUNCHER SITE_PROGRAM SITE_RANKS_PER_NODE SITE_CORES_PER_RANK; do
  [ -n "${!name:-}" ] || die "$site does not set $name; sites/example.env explains it"
done

# How many ranks: what was asked for, else nodes times ranks a node.
nodes=${SLURM_JOB_NUM_NODES:-}
if [ -z "$nodes" ] && [ -n "${PBS_NODEFILE:-}" ]; then
  nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
fi
ranks=${ESPALIER_RANKS:-$((${nodes:-1} * SITE_RANKS_PER_NODE))}

# A rank computes on its own cores; more threads than cores would only take turns.
export OMP_NUM_THREADS=$SITE_CORES_PER_RANK
# Threads stay on their core. The ranks themselves are bound by the launcher's options below.
export OMP_PROC_BIND=close OMP_PLACES=cores

# The launcher's options. Each launcher spells "one rank a core (or a GPU), bound" its own way.
case $SITE_LAUNCHER in
  srun)
    # --cpu-bind=cores: ranks never move. --kill-on-bad-exit: one dead rank ends the step at once
    # instead of leaving the others in a collective until the time limit.
    options=(--ntasks="$ranks" --cpus-per-task="$SITE_CORES_PER_RANK" --cpu-bind=cores
      --kill-on-bad-exit=1)
    # --gpu-bind=single:1: every rank sees one GPU, the one nearest to its cores.
    [ "${SITE_GPUS_PER_NODE:-0}" -gt 0 ] && options+=(--gpus-per-task=1 --gpu-bind=single:1)
    ;;
  mpiexec.mpich | mpiexec.hydra)
    options=(-n "$ranks" -ppn "$SITE_RANKS_PER_NODE" -bind-to "core:$SITE_CORES_PER_RANK")
    ;;
  mpirun.openmpi | prterun)
    options=(-n "$ranks" --map-by "ppr:$SITE_RANKS_PER_NODE:node:PE=$SITE_CORES_PER_RANK"
      --bind-to core)
    ;;
  mpiexec | mpirun | aprun | jsrun)
    # Whose launcher this name is cannot be told: the site file says all its options.
    [ -n "${SITE_LAUNCHER_OPTIONS+set}" ] ||
      die "$site: for SITE_LAUNCHER=$SITE_LAUNCHER set SITE_LAUNCHER_OPTIONS as well (binding)"
    options=(-n "$ranks")
    ;;
  *) die "$site: SITE_LAUNCHER=$SITE_LAUNCHER is unknown; use srun, mpiexec.mpich, mpiexec.hydra,
  mpirun.openmpi, or mpiexec with SITE_LAUNCHER_OPTIONS" ;;
esac
# Words of the site, split at blanks on purpose.
# shellcheck disable=SC2206
options+=(${SITE_LAUNCHER_OPTIONS:-})

# Where the launcher cannot give each rank one GPU, this wrapper does, by the node-local rank.
wrapper=()
if [ "${SITE_GPUS_PER_NODE:-0}" -gt 0 ] && [ "$SITE_LAUNCHER" != srun ]; then
  wrapper=("$here/one-gpu.sh")
fi

command=("$SITE_LAUNCHER" "${options[@]}" ${wrapper[@]+"${wrapper[@]}"} "$SITE_PROGRAM"
  train "$deck" "$@")
if [ "${ESPALIER_DRY_RUN:-0}" = 1 ]; then
  printf '%q ' "${command[@]}"
  printf '\n'
  exit 0
fi

# Modules and MPI settings come as functions of the site file, so that a dry run needs neither.
if declare -F site_environment >/dev/null; then site_environment; fi

# Judge the deck on one core before the grid is woken: all faults at once, no GPU hours lost. Of the
# arguments only --set concerns the deck.
front=$(dirname "$SITE_PROGRAM")/espalier
settings=()
for ((i = 1; i <= $#; ++i)); do
  case ${!i} in
    --set) i=$((i + 1)); settings+=(--set "${!i}") ;;
    --set=*) settings+=("${!i}") ;;
  esac
done
"$front" check "$deck" --ranks "$ranks" ${settings[@]+"${settings[@]}"}

# The batch system signals USR1 some minutes before the time limit (see the job scripts). The run
# then saves a checkpoint and ends with code 75, as it does when it sees the limit coming by itself.
# USR1 and not TERM goes on to the launcher: all launchers above pass it to the ranks, while some
# end a run that they are told to end by TERM.
"${command[@]}" &
launcher=$!
cancelled=0
# shellcheck disable=SC2317  # called by trap
on_time_limit() {
  echo "launch.sh: the time limit is near; asking the run to stop" >&2
  kill -USR1 "$launcher" 2>/dev/null || true
}
# shellcheck disable=SC2317  # called by trap
on_cancel() {
  cancelled=1
  kill -TERM "$launcher" 2>/dev/null || true
}
trap on_time_limit USR1
trap on_cancel TERM INT

# A signal ends `wait` early, so wait until the launcher itself has ended.
status=0
while kill -0 "$launcher" 2>/dev/null; do
  status=0
  wait "$launcher" || status=$?
done

# Some launchers return 0 for a run that a signal to them has stopped: then its last record tells.
if [ "$status" = 0 ]; then
  directory=$("$front" deck --effective "$deck" ${settings[@]+"${settings[@]}"} |
    sed -nE 's/^directory = "([^"]*)".*/\1/p' | head -n 1)
  reason=$(tail -n 1 "$directory/metrics.jsonl" 2>/dev/null |
    sed -nE 's/^\{"kind":"end","reason":"([^"]*)".*/\1/p') || true
  case $reason in SIGTERM | SIGUSR1 | "time limit") status=75 ;; esac
fi

# Code 75: saved, and not done yet. Who cancelled the job does not want it back.
if [ "$status" = 75 ] && [ "$cancelled" = 0 ]; then
  if [ -n "${ESPALIER_REQUEUE:-}" ]; then
    echo "launch.sh: back into the queue: $ESPALIER_REQUEUE" >&2
    eval "$ESPALIER_REQUEUE"
  else
    echo "launch.sh: the run saved and stopped before its end; ESPALIER_REQUEUE is not set, so this
  job does not go on by itself: submit it again" >&2
  fi
fi
exit "$status"
