#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A rank that fails in the middle of a step takes the job down within seconds.
# Usage: dying.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS HOW
#   throw  one rank throws: one message with its number, its place, its host and the cause
#   kill   one rank is killed (-9): the launcher names host and exit code
#   nan    the loss is not finite: rank 0 speaks for all, and all leave with code 5
# For a layout each of tensor, pipeline and data parallelism and ZeRO.
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4 how=$5
seconds=20 victim=2 ranks=4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0

# Runs as the program, and tells the victim apart by what the launcher tells each process.
cat >"$folder/rank" <<'END'
#!/bin/bash
if [ "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-}}}" = "$VICTIM" ]; then
  echo $$ >"$VICTIM_PID"
  [ "$VICTIM_HOW" != throw ] || export ESPALIER_TEST_BREAK=throw_in_step
fi
exec "$@"
END
chmod +x "$folder/rank"

fault() {
  echo "WRONG: $name: $1"
  tail -n 12 "$folder/log"
  bad=$((bad + 1))
}

# Waits for the job; sets code and took.
finish() {
  local start=$SECONDS
  while kill -0 "$job" 2>/dev/null && [ $((SECONDS - start)) -lt $seconds ]; do sleep 0.1; done
  took=$((SECONDS - start))
  if kill -0 "$job" 2>/dev/null; then
    fault "the job goes on $seconds s after the failure"
    kill -9 "$job"
  fi
  code=0
  wait "$job" || code=$?
  pgrep -f "run.directory=$folder/run" >/dev/null && sleep 1
  if pgrep -f "run.directory=$folder/run" >/dev/null; then
    fault "processes are left behind"
    pgrep -f "run.directory=$folder/run" | xargs -r kill -9 || true
  fi
}

try() { # NAME PLACE KEY=VALUE ...
  name="$how, $1" place=$2
  shift 2
  local settings=(run.steps=1000000 batch.global_batch_size=8 batch.micro_batch_size=1
    model.num_layers=4 monitor.peak_gflops=100 monitor.progress=off "$@") setting sets=()
  if [ "$how" = nan ]; then settings+=(optimizer.learning_rate=100 model.init_std=10); fi
  for setting in "${settings[@]}"; do sets+=(--set "$setting"); done
  rm -rf "$folder/run" "$folder/pid"
  VICTIM=$victim VICTIM_PID=$folder/pid VICTIM_HOW=$how \
    "$launcher" "$flag" $ranks "$folder/rank" "$bin/espalier-spmd" train "$inputs/gpt2-tiny.toml" \
    --set "run.directory=$folder/run" "${sets[@]}" </dev/null >"$folder/log" 2>&1 &
  job=$!
  if [ "$how" = kill ]; then
    for ((i = 0; i < 300; ++i)); do
      grep -qs '"kind":"step","step":3,' "$folder/run/metrics.jsonl" && break
      sleep 0.1
    done
    kill -9 "$(cat "$folder/pid")"
  fi
  finish
  "judge_$how"
  echo "$name: code $code after $took s: $(grep -E "$message" "$folder/log" | head -n 1)"
}

errors() { # how many messages of the program
  grep -c '^error:' "$folder/log" || true
}

judge_throw() {
  message="^error: rank $victim \\($place\\) on $(uname -n): .*a test asked for this error"
  [ "$code" -eq 1 ] || fault "exit code $code, not 1"
  [ "$(errors)" -eq 1 ] || fault "$(errors) messages, not one"
  grep -qE "$message" "$folder/log" || fault "the message does not name rank, place, host and cause"
}

# The program cannot speak for a process that is gone, and its neighbours get no error from MPI:
# only the launcher knows. MPICH's names host, process and exit code (9), now and then of a
# neighbour instead whose transport noticed first and aborted (6).
judge_kill() {
  message='EXIT CODE: (9|6)$|signal (9|6)'
  [ "$code" -ne 0 ] || fault "exit code 0"
  [ "$(errors)" -eq 0 ] || fault "$(errors) messages of the survivors"
  grep -qiE "$message" "$folder/log" || fault "the launcher does not name the signal or exit code"
  grep -q "$(uname -n)" "$folder/log" || fault "nobody names the host"
}

judge_nan() {
  message='^error: step [0-9]+: .*(not finite|the loss is -?(nan|inf))'
  [ "$code" -eq 5 ] || fault "exit code $code, not 5"
  [ "$(errors)" -eq 1 ] || fault "$(errors) messages, not one"
  grep -qE "$message" "$folder/log" || fault "the message does not name step and cause"
  grep -q '"kind":"end","reason":"error: ' "$folder/run/metrics.jsonl" || fault "no end record"
}

try "tensor parallel" "pp 0, dp 0, cp 0, tp 2" grid.tensor_parallel=4
try "tensor parallel, cut tokens" "pp 0, dp 0, cp 0, tp 2" grid.tensor_parallel=4 \
  grid.sequence_parallel=true
try "pipeline" "pp 2, dp 0, cp 0, tp 0" grid.pipeline_parallel=4
try "data parallel" "pp 0, dp 2, cp 0, tp 0"
try "ZeRO 3" "pp 0, dp 2, cp 0, tp 0" grid.zero_stage=3
try "all axes" "pp 1, dp 0, cp 0, tp 0" grid.pipeline_parallel=2 grid.tensor_parallel=2
[ $bad -eq 0 ]
