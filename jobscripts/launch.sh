#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts one training run inside a batch job; shared by slurm/ and pbs/, which only ask for
# resources. Everything that differs between sites comes from a file of sites/.
#
# Usage: launch.sh DECK [espalier arguments ...], with in the environment
#   ESPALIER_SITE        site file (default: sites/site.env beside this script)
#   ESPALIER_RANKS       ranks in all (default: what the batch system granted)
#   ESPALIER_DRY_RUN=1   print the launch line and stop: no module is loaded, nothing is started
#   ESPALIER_REQUEUE     command that puts the job back into the queue after the time limit; unset:
#                        the job ends. Set it only for runs that go on from a checkpoint.
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

# Judge the deck on one core before the grid is woken: all faults at once, no GPU hours lost.
"$(dirname "$SITE_PROGRAM")/espalier" check "$deck" --ranks "$ranks" "$@"

# The batch system signals USR1 some minutes before the time limit (see the job scripts). TERM then
# ends the run, and where ESPALIER_REQUEUE is set the job goes back into the queue.
"${command[@]}" &
launcher=$!
requeue=0
# shellcheck disable=SC2317  # called by trap
on_time_limit() {
  echo "launch.sh: the time limit is near; asking the run to stop" >&2
  requeue=1
  kill -TERM "$launcher" 2>/dev/null || true
}
trap on_time_limit USR1
trap 'kill -TERM "$launcher" 2>/dev/null || true' TERM INT

# A signal ends `wait` early, so wait until the launcher itself has ended.
status=0
while kill -0 "$launcher" 2>/dev/null; do
  status=0
  wait "$launcher" || status=$?
done

if [ "$requeue" = 1 ]; then
  [ -n "${ESPALIER_REQUEUE:-}" ] || die "stopped for the time limit; ESPALIER_REQUEUE is not set,
  so this job does not go on by itself"
  echo "launch.sh: back into the queue: $ESPALIER_REQUEUE" >&2
  eval "$ESPALIER_REQUEUE"
fi
exit "$status"
