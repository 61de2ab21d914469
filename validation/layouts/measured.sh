#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# grid.stage_balance = "measured": stage times of a run make the stages of the next, in `plan` as in
# `train`; a folder without such times is refused.
# Usage: measured.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS
set -euo pipefail
bin=$1 launcher=$2 flag=$3 deck=$4/gpt2-tiny.toml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--set run.steps=3 --set model.num_layers=6 --set grid.pipeline_parallel=2
  --set monitor.peak_gflops=100 --set checkpoint.save_final=false)
measured=(--set grid.stage_balance=measured --set "grid.stage_times=$work/first")
run() { # folder settings...
  local folder=$1
  shift
  "$launcher" "$flag" 2 "$bin/espalier-spmd" train "$deck" --set run.directory="$folder" \
    "${common[@]}" "$@" >"$folder.log" 2>&1
}
run "$work/first" --set 'grid.stage_blocks=[5,1]' || { cat "$work/first.log"; exit 1; }
grep -q '"stage_layers":\[\[0,5\],\[5,6\]\]' "$work/first/metrics.jsonl"
[ "$(grep -c '"stage_seconds":\[[0-9.e-]*,[0-9.e-]*\]' "$work/first/metrics.jsonl")" -eq 3 ]
grep -q 'slowest: stage 0 of 2' "$work/first.log"
run "$work/second" "${measured[@]}" || { cat "$work/second.log"; exit 1; }
layers=$(grep -o '"stage_layers":[^"]*' "$work/second/metrics.jsonl")
echo "balanced to $layers"
[ "$layers" != '"stage_layers":[[0,5],[5,6]],' ]
# The plan of a login node has the same stages.
"$bin/espalier" plan "$deck" --ranks 2 "${common[@]}" "${measured[@]}" --schedule >"$work/plan"
split=$(grep -o 'stage_layers":\[\[0,[0-9]*' "$work/second/metrics.jsonl" | grep -o '[0-9]*$')
grep -q "rank 0: embedding, block.*($split)" "$work/plan" || { cat "$work/plan"; exit 1; }
# Times of another run folder, or of none, are an error by name.
code=0
run "$work/third" --set grid.stage_balance=measured --set "grid.stage_times=$work/nowhere" || code=$?
grep -q "grid.stage_times must name the folder" "$work/third.log" || { cat "$work/third.log"; exit 1; }
[ $code -ne 0 ]
echo "stages by measured times work"
