#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The job scripts without a batch system: they parse, hold the directives that a run of weeks needs,
# name no user, host or account, and their dry run prints the launch line that is due.
# Usage: check.sh ROOT FOLDER   (FOLDER for a few small files)
set -u
root=$1
work=$2
failed=0
rm -rf "$work" && mkdir -p "$work" && cd "$root" || exit 2
echo '# a deck' >"$work/deck.toml"

fault() {
  echo "FAILED: $*"
  failed=1
}

# demand FILE PATTERN ...: FILE holds a line that matches each pattern.
demand() {
  file=$1
  shift
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$file" || fault "$file has no line like: $pattern"
  done
}

parses() { bash -n "$1" 2>/dev/null; }

# names_someone FILE: an account, a partition, a mail address, or a home folder.
names_someone() {
  grep -nE '(--account=|--partition=|--mail-user=|#PBS -[AMq] |/home/|/users/|[a-z]@[a-z])' "$1"
}

# launch_line TEXT COMMAND ...: the dry run says exactly TEXT.
launch_line() {
  wanted=$1
  shift
  line=$(env ESPALIER_DRY_RUN=1 "$@" 2>&1) || fault "$* ended with $?: $line"
  [ "$(echo "$line" | sed 's/ *$//')" = "$wanted" ] || fault "$* said
  $line
  wanted
  $wanted"
}

# refuses TEXT COMMAND ...: ends with code 3 and says TEXT.
refuses() {
  wanted=$1
  shift
  line=$(env ESPALIER_DRY_RUN=1 "$@" 2>&1)
  code=$?
  if [ $code -ne 3 ] || ! echo "$line" | grep -qF -- "$wanted"; then
    fault "$* ended with $code and said '$line'; wanted code 3 and '$wanted'"
  fi
}

scripts=$(find jobscripts -type f -name '*.sh' -o -type f -name '*.sbatch' -o -type f -name '*.pbs')
[ "$(echo "$scripts" | wc -l)" -ge 4 ] || fault "fewer than four job scripts: $scripts"
for script in $scripts jobscripts/sites/*.env; do
  parses "$script" || fault "$script does not parse"
  names_someone "$script" && fault "$script names a user, host or account"
done

demand jobscripts/slurm/train.sbatch '^#SBATCH --nodes=' '^#SBATCH --time=' '^#SBATCH --exclusive' \
  '^#SBATCH --signal=B:USR1@[0-9]+' '^#SBATCH --no-requeue' '^#SBATCH --open-mode=append' \
  '^#SBATCH --output='
demand jobscripts/pbs/train.pbs '^#PBS -N ' '^#PBS -l select=.*mpiprocs=' '^#PBS -l walltime=' \
  '^#PBS -l place=.*excl' '^#PBS -r n' '^#PBS -j oe'

# Dry runs: the example site by Slurm, then MPICH with GPUs, then PBS.
deck=$work/deck.toml
site=jobscripts/sites/example.env
program=build/release/bin/espalier-spmd
launch_line "srun --ntasks=512 --cpus-per-task=1 --cpu-bind=cores --kill-on-bad-exit=1 $program \
train $deck --set run.steps=3" \
  ESPALIER_SITE=$site SLURM_JOB_NUM_NODES=4 \
  bash jobscripts/slurm/train.sbatch "$deck" --set run.steps=3
sed -e 's/^SITE_LAUNCHER=.*/SITE_LAUNCHER=mpiexec.mpich/' -e 's/^SITE_RANKS_PER_NODE=.*/SITE_RANKS_PER_NODE=4/' \
  -e 's/^SITE_CORES_PER_RANK=.*/SITE_CORES_PER_RANK=16/' -e 's/^SITE_GPUS_PER_NODE=.*/SITE_GPUS_PER_NODE=4/' \
  $site >"$work/gpu.env"
launch_line "mpiexec.mpich -n 8 -ppn 4 -bind-to core:16 $root/jobscripts/one-gpu.sh $program \
train $deck" \
  ESPALIER_SITE="$work/gpu.env" ESPALIER_RANKS=8 bash jobscripts/launch.sh "$deck"
printf 'a\na\nb\nb\n' >"$work/nodes"
launch_line "mpiexec.mpich -n 8 -ppn 4 -bind-to core:16 $root/jobscripts/one-gpu.sh $program \
train $deck --set run.seed=2" \
  ESPALIER_SITE="$work/gpu.env" PBS_NODEFILE="$work/nodes" ESPALIER_DECK="$deck" \
  ESPALIER_ARGUMENTS="--set run.seed=2" bash jobscripts/pbs/train.pbs

# What must be refused.
refuses 'no deck' ESPALIER_SITE=$site bash jobscripts/launch.sh
refuses 'cannot be read' ESPALIER_SITE=$site bash jobscripts/launch.sh "$work/none.toml"
refuses 'is missing; copy' ESPALIER_SITE="$work/none.env" bash jobscripts/launch.sh "$deck"
grep -v '^SITE_CORES' $site >"$work/short.env"
refuses 'does not set SITE_CORES_PER_RANK' ESPALIER_SITE="$work/short.env" \
  bash jobscripts/launch.sh "$deck"
sed 's/^SITE_LAUNCHER=.*/SITE_LAUNCHER=runjob/' $site >"$work/odd.env"
refuses 'SITE_LAUNCHER=runjob is unknown' ESPALIER_SITE="$work/odd.env" \
  bash jobscripts/launch.sh "$deck"
refuses 'sets none of' env -u MPI_LOCALRANKID -u SLURM_LOCALID bash jobscripts/one-gpu.sh true
seen=$(MPI_LOCALRANKID=3 bash jobscripts/one-gpu.sh sh -c 'echo $CUDA_VISIBLE_DEVICES')
[ "$seen" = 3 ] || fault "one-gpu.sh showed local rank 3 the GPU '$seen'"

# A true launch, with stand-ins for the programs: the deck is judged first, the signal of the time
# limit reaches the run, and the job goes back into the queue if it may.
mkdir -p "$work/bin"
export RUN_FOLDER="$work/none"
cat >"$work/bin/espalier" <<'EOF'
#!/bin/sh
case $1 in
  check) echo "check $*" ;;
  deck) echo "directory = \"$RUN_FOLDER\"  # deck" ;;
esac
EOF
cat >"$work/bin/espalier-spmd" <<'EOF'
#!/bin/bash
trap "echo run: stopping; exit ${CODE_AT_USR1:-75}" USR1
trap "echo run: cancelled; exit 75" TERM
echo "run $*"
for i in $(seq 100); do sleep 0.1; done
EOF
cat >"$work/bin/mpiexec" <<'EOF'
#!/bin/bash
while [ "$(basename "$1")" != espalier-spmd ]; do shift; done
exec "$@"
EOF
chmod +x "$work"/bin/*
cat >"$work/true.env" <<EOF
SITE_LAUNCHER=mpiexec
SITE_LAUNCHER_OPTIONS=--x
SITE_PROGRAM=$work/bin/espalier-spmd
SITE_RANKS_PER_NODE=1
SITE_CORES_PER_RANK=1
site_environment() { PATH=$work/bin:\$PATH; }
EOF

# stopped_by SIGNAL CODE REQUEUE: launches, signals, demands CODE; the log stays in $work/log.
stopped_by() {
  ESPALIER_SITE="$work/true.env" ESPALIER_REQUEUE="$3" ESPALIER_RANKS=2 \
    bash jobscripts/launch.sh "$deck" >"$work/log" 2>&1 &
  job=$!
  for _ in $(seq 100); do
    grep -q '^run train' "$work/log" && break
    sleep 0.1
  done
  kill -"$1" $job
  wait $job
  code=$?
  [ $code -eq "$2" ] || fault "the job stopped by $1 ended with $code, wanted $2"
  logged "check check $deck --ranks 2" "run train $deck"
}
logged() {
  for text in "$@"; do
    grep -q -- "$text" "$work/log" ||
      fault "the log of a true launch lacks '$text': $(cat "$work/log")"
  done
}
not_requeued() {
  grep -q '^requeued' "$work/log" && fault "$1 went back into the queue: $(cat "$work/log")"
}
stopped_by USR1 75 'echo requeued'
logged 'run: stopping' '^requeued'
stopped_by USR1 75 ''
logged 'run: stopping' 'does not go on by itself'
export CODE_AT_USR1=5
stopped_by USR1 5 'echo requeued'
not_requeued "a run that failed while it stopped"
CODE_AT_USR1=0
stopped_by USR1 0 'echo requeued'
not_requeued "a run that was done"
# A launcher that returns 0 although the run was stopped: its last record tells.
mkdir -p "$work/run"
export RUN_FOLDER="$work/run"
echo '{"kind":"end","reason":"SIGUSR1","steps":7}' >"$work/run/metrics.jsonl"
stopped_by USR1 75 'echo requeued'
logged '^requeued'
echo '{"kind":"end","reason":"finished","steps":9}' >"$work/run/metrics.jsonl"
stopped_by USR1 0 'echo requeued'
not_requeued "a run whose record says that it is done"
stopped_by TERM 75 'echo requeued'
logged 'run: cancelled'
not_requeued "a cancelled job"

# Negative controls of this checker.
echo 'if true; then' >"$work/broken.sh"
parses "$work/broken.sh" && fault "control: a script that does not parse passed"
echo '#SBATCH --account=someone' >"$work/named.sh"
names_someone "$work/named.sh" >/dev/null || fault "control: a script that names an account passed"
if (demand "$work/named.sh" '^#SBATCH --nodes=' && exit $failed) >/dev/null; then
  fault "control: a script without --nodes passed"
fi
[ $failed -eq 0 ] && echo "the job scripts hold what they must"
exit $failed
