# SPDX-License-Identifier: Apache-2.0
# Functions of the tests of restarts; sourced by bash. The caller has set bin (folder of the
# programs), launcher and flag (of a number of ranks), and inputs (folder of the decks).
# shellcheck shell=bash disable=SC2154

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=validation/layouts/layouts.sh
. "$here/../layouts/layouts.sh"

# The deck keys that every run here shares: 20 steps whose rate falls, so that a wrong position
# shows, and a checkpoint at step 10 and at the end.
restart_settings() {
  printf '%s\n' run.steps=20 numerics.reproducible=true batch.micro_batch_size=1 \
    batch.global_batch_size=8 optimizer.learning_rate=0.01 optimizer.gradient_clip=0.05 \
    schedule.decay=cosine schedule.warmup_steps=3 monitor.peak_gflops=100 monitor.progress=off \
    monitor.validation_interval=5 monitor.validation_batches=1 checkpoint.save_final=false \
    checkpoint.interval=10 checkpoint.transfer=independent
}

# start RANKS FOLDER DECK [--resume ...] [key=value ...]: a run in a folder that may hold one
# already. Its words are added to FOLDER.log.
start() {
  local ranks=$1 folder=$2 deck=$3 word
  shift 3
  local command=("$launcher" "$flag" "$ranks" "$bin/espalier-spmd" train "$deck"
    --set "run.directory=$folder")
  for word in "$@"; do
    case $word in
      --*) command+=("$word") ;;
      *) command+=(--set "$word") ;;
    esac
  done
  quote "${command[@]}" >"$folder.command"
  timeout --kill-after=5 "${RESTART_SECONDS:-120}" "${command[@]}" </dev/null >>"$folder.log" 2>&1
}

# results FOLDER: what steps 1 to the last gave, a number a line; of a step that was done twice the
# last time counts.
results() {
  sed -nE '/^\{"kind":"step"/ {
             s/^\{"kind":"step","step":([0-9]+),(.*"skipped":[a-z]+),.*("token_hash":"[0-9a-f]*").*/\1 \2,\3/
             p }
           s/^\{"kind":"validation","step":([0-9]+),(.*)\}/\1 validation \2/p' "$1/metrics.jsonl" |
    awk '{ key = $1 ($2 == "validation"); line[key] = $0 } END { for (k in line) print line[k] }' |
    sort -n
}

# expect_end NAME HOOK PLACE ONE MANY CODE: says whether judge_end's verdict is "same", or
# DIFFERENT where a hook broke something; a wrong one counts in $bad.
expect_end() {
  local hook=$2 place=$3 one=$4 many=$5 code=$6 name=$1 verdict=same wanted=same
  [ -z "$hook" ] || wanted=DIFFERENT
  judge_end "$name" "$one" "$many" "$code" >"$many.verdict" ||
    verdict=$(cut -d' ' -f1 "$many.verdict" | head -n 1)
  if [ "$verdict" = "$wanted" ]; then
    echo "$verdict $name${hook:+ without $hook}$place"
  else
    echo "WRONG: $name${hook:+ without $hook}$place is $verdict"
    cat "$many.verdict"
    bad=$((bad + 1))
  fi
}

# judge_end NAME ONE MANY CODE: whether a run that was interrupted ended as the undisturbed one:
# the same results of every step and the same bytes in the last checkpoint.
judge_end() {
  local name=$1 one=$2 many=$3 code=$4 last=checkpoints/step-0000000020
  if [ "$code" -ne 0 ]; then
    echo "FAILED    $name: exit code $code$([ "$code" -eq 124 ] && echo ', it hung')"
    tail -n 5 "$many.log"
  elif [ "$(results "$one" | wc -l)" -ne 24 ]; then
    echo "FAILED    $name: the undisturbed run is not whole"
  elif ! diff <(results "$one") <(results "$many") >"$many.diff"; then
    echo "DIFFERENT $name"
    head -n 6 "$many.diff"
  elif ! cmp "$one/$last/state.h5" "$many/$last/state.h5"; then
    echo "DIFFERENT $name: the last checkpoint"
  elif [ "$(cat "$many/checkpoints/latest")" != step-0000000020 ]; then
    echo "FAILED    $name: latest is $(cat "$many/checkpoints/latest")"
  elif find "$many/checkpoints" -mindepth 1 -maxdepth 1 -name '.*' | grep -q .; then
    echo "FAILED    $name: remains are left: $(ls -A "$many/checkpoints")"
  else
    return 0
  fi
  echo "  $(cat "$many.command")"
  return 1
}
