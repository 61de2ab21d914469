#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Master weights in bf16, rounded stochastically: a run learns as one with fp32 masters does, and a
# checkpoint goes over from either kind of master to the other, on any layout alike.
# Usage: masters.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4
. "$(dirname "$0")/restart.sh"
mapfile -t common < <(restart_settings)
common+=(numerics.compute_type=bf16)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
deck=$inputs/gpt2-tiny.toml bad=0

# must WHAT COMMAND...: says what failed, and goes on.
must() {
  local what=$1
  shift
  if "$@"; then echo "ok     $what"; else echo "WRONG  $what"; bad=$((bad + 1)); fi
}
# run NAME RANKS [argument ...]
run() {
  local name=$1 ranks=$2
  shift 2
  start "$ranks" "$work/$name" "$deck" "$@" "${common[@]}" ||
    { echo "FAILED $name"; tail -n 5 "$work/$name.log"; exit 1; }
}
same_end() { # ONE MANY
  cmp "$work/$1/checkpoints/step-0000000020/state.h5" "$work/$2/checkpoints/step-0000000020/state.h5"
}
says() { # NAME TEXT
  grep -qF "$2" "$work/$1.log"
}
types() { # NAME STEP GROUP: the element types of its datasets
  "$bin/espalier-spmd" checkpoint inspect "$work/$1/checkpoints/step-00000000$2" |
    awk -v group="$3/" '/^  [^ @]/ { at = $1 } at == group && /^    [^ @]/ { print $2 }' | sort -u
}

run wide 1
run narrow 1 numerics.master_type=bf16
must "parameters of fp32 masters are fp32" test "$(types wide 10 parameters)" = fp32
must "parameters of bf16 masters are bf16" test "$(types narrow 10 parameters)" = bf16
must "their moments are fp32" test "$(types narrow 10 optimizer/first_moment)" = fp32
must "the header names them" says narrow "bf16 master weights rounded stochastically"

# Over from one to the other at step 10.
at10=checkpoints/step-0000000010
run rounded 1 "--resume=$work/wide/$at10" numerics.master_type=bf16
run rounded-many 4 "--resume=$work/wide/$at10" numerics.master_type=bf16 \
  grid.tensor_parallel=2 grid.zero_stage=1
must "it says that it rounds" says rounded \
  "fp32 in the checkpoint, bf16 in this run: rounded to nearest"
must "rounded alike on four ranks" same_end rounded rounded-many
run widened 1 "--resume=$work/narrow/$at10"
run widened-many 2 "--resume=$work/narrow/$at10" grid.pipeline_parallel=2
must "it says that it widens" says widened \
  "bf16 in the checkpoint, fp32 in this run: the same values"
must "widened alike on two stages" same_end widened widened-many
must "other weights than those of the run that went on" \
  bash -c "! cmp -s '$work/widened/checkpoints/step-0000000020/state.h5' \
    '$work/wide/checkpoints/step-0000000020/state.h5'"

# A damaged weight is found although its checksum is not that of what stands in memory.
cp -r "$work/wide" "$work/damaged"
offset=$(grep -abo 'parameters' "$work/damaged/$at10/state.h5" | head -n 1 | cut -d: -f1)
size=$(stat -c %s "$work/damaged/$at10/state.h5")
printf '\x55\x55\x55\x55' | dd of="$work/damaged/$at10/state.h5" bs=1 conv=notrunc \
  seek=$((offset + (size - offset) / 2)) 2>/dev/null
start 1 "$work/from-damaged" "$deck" "--resume=$work/damaged/$at10" numerics.master_type=bf16 \
  "${common[@]}" && code=0 || code=$?
must "a damaged tensor is refused" test "$code" -ne 0
must "by name" says from-damaged "damaged tensors"

# Text, at a rate whose updates are a fraction of the step between neighbouring bf16.
awk 'BEGIN { s = 7
  for (i = 0; i < 60000; ++i) { s = (s * 16807) % 2147483647; printf "%c", 97 + s % 7
    if (s % 11 == 0) printf " " } }' >"$work/text.txt"
"$bin/espalier" corpus build --out "$work/documents" "$work/text.txt" >"$work/corpus.log"
common+=(run.steps=120 data.source=files "data.train=[\"$work/documents\"]" model.vocab_size=259
  optimizer.learning_rate=0.0001 optimizer.gradient_clip=1 schedule.decay=constant
  schedule.warmup_steps=0 monitor.validation_interval=0 checkpoint.interval=0)
run learns-wide 1
run learns-narrow 1 numerics.master_type=bf16
loss() { # NAME STEP
  sed -nE "s/^\{\"kind\":\"step\",\"step\":$2,\"loss\":([0-9.]+),.*/\1/p" "$work/$1/metrics.jsonl"
}
first=$(loss learns-wide 1) wide=$(loss learns-wide 120) narrow=$(loss learns-narrow 120)
echo "loss $first at step 1; at step 120 $wide with fp32 masters, $narrow with bf16 ones"
# Losses of single batches lie about 1 % apart; weights that never moved would stay at the first.
must "both learn alike" awk -v f="$first" -v a="$wide" -v b="$narrow" 'BEGIN {
  d = a > b ? a - b : b - a; exit !(f - a > 1 && d < 0.02 * (f - a)) }'
echo "$bad faults"
[ $bad -eq 0 ]
