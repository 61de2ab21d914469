# SPDX-License-Identifier: Apache-2.0
# Functions of the tests of layouts; sourced by bash. The caller has set bin (folder of the
# programs), launcher and flag (of a number of ranks), and inputs (folder of the decks); program
# where it is not $bin/espalier-spmd.
# shellcheck shell=bash disable=SC2154

steps=3

# The deck keys that every run here shares. The rate is high and constant, and the gradient is
# clipped, so that a wrong moment or norm shows in the parameters within three steps.
common_settings() {
  printf '%s\n' run.steps=$steps numerics.reproducible=true batch.micro_batch_size=1 \
    batch.global_batch_size=8 optimizer.learning_rate=0.01 optimizer.gradient_clip=0.05 \
    schedule.decay=constant monitor.peak_gflops=100 monitor.progress=off checkpoint.save_final=false
}

# split_words WORD...: the keys of a table's line, into the arrays arithmetic and grid.
split_words() {
  local word
  arithmetic=() grid=()
  for word in "$@"; do
    case ${word%%=*} in
      data.source) # of matrix.sh, which makes the documents
        arithmetic+=("$word" "data.train=[\"$work/documents\"]" model.vocab_size=259) ;;
      *.*) arithmetic+=("$word") ;;
      *) grid+=("grid.$word") ;;
    esac
  done
}

# quote WORD...: the words as one line that a shell reads back
quote() {
  printf '%q ' "$@"
}

# train RANKS FOLDER DECK [key=value ...]: leaves what the run says in FOLDER.log and its command
# in FOLDER.command. A run that hangs is ended.
train() {
  local ranks=$1 folder=$2 deck=$3 setting
  shift 3
  local command=("$launcher" "$flag" "$ranks" "${program:-$bin/espalier-spmd}" train "$deck"
    --set "run.directory=$folder")
  for setting in "$@"; do command+=(--set "$setting"); done
  quote "${command[@]}" >"$folder.command"
  timeout --kill-after=5 "${LAYOUT_SECONDS:-120}" "${command[@]}" </dev/null >"$folder.log" 2>&1
}

# record FOLDER: what the layout must not change, a number a line. Numbers stand in the metrics
# with as many digits as their bits need, so equal text is equal bits.
record() {
  # Of a step what stands before its times, and the hash of its tokens.
  sed -nE '/^\{"kind":"step"/ {
             s/^\{(.*"skipped":[a-z]+,.*),"step_seconds":.*("token_hash":"[0-9a-f]*").*/\1,\2/
             s/,"/\n"/g
             p }
           s/^\{"kind":"end".*("parameter_hash":[^,}]*).*/\1/p' "$1/metrics.jsonl"
}

# is_whole FOLDER: whether the record holds all steps and the hash of the parameters
is_whole() {
  local lines
  lines=$(record "$1") || return 1
  [ "$(grep -cE '^"loss":[0-9.e+-]+$' <<<"$lines")" -eq "$steps" ] &&
    # A norm that is not finite stands in a step of fp16 that was skipped, and there alone.
    [ "$(grep -cE '^"gradient_norm":[0-9.e+-]+$|^"skipped":true$' <<<"$lines")" -eq "$steps" ] &&
    [ "$(grep -cE '^"token_hash":"[0-9a-f]{16}"$' <<<"$lines")" -eq "$steps" ] &&
    grep -qE '"parameter_hash":"[0-9a-f]{16}"' <<<"$lines"
}

# loss_difference ONE MANY: the largest relative difference of a loss, or nothing where the tokens
# differ.
loss_difference() {
  diff <(record "$1" | grep token) <(record "$2" | grep token) >"$2.diff" || return 0
  paste -d: <(record "$1" | grep '"loss"') <(record "$2" | grep '"loss"') |
    awk -F: '{ d = $2 > $4 ? $2 - $4 : $4 - $2; d /= $2; if (d > most) most = d }
             END { if (NR) printf "%.2e\n", most }'
}

# judge NAME ONE MANY CODE: compares a finished run with that of one rank; CODE is its exit code.
# Prints one line, and where they differ the first differences and both commands.
judge() {
  local name=$1 one=$2 many=$3 code=$4
  if [ "$code" -ne 0 ]; then
    echo "FAILED    $name: exit code $code$([ "$code" -eq 124 ] && echo ', it hung')"
    tail -n 5 "$many.log"
  elif ! is_whole "$one" || ! is_whole "$many"; then
    echo "FAILED    $name: the metrics are not whole"
  elif diff <(record "$one") <(record "$many") >"$many.diff"; then
    echo "same      $name"
    return 0
  else
    echo "DIFFERENT $name"
    head -n 6 "$many.diff"
  fi
  echo "  one:  $(cat "$one.command")"
  echo "  many: $(cat "$many.command")"
  return 1
}
