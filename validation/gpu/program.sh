#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The whole program on a device, or on the emulated one, end to end.
# Usage: program.sh PROGRAM HOST_PROGRAM LAUNCHER NUMPROC_FLAG INPUTS CASE [ARGUMENT ...]
# HOST_PROGRAM is the same program built for the host; - where there is none: those cases are skipped.
#   host FAMILY TYPE     20 steps have the losses of the host program to a bound
#   kernels FAMILY TYPE  tuned kernels have the losses of the portable ones to a bound
#   layouts FAMILY       ranks that share the device give the bytes of one rank
#   graphs FAMILY TYPE   recorded micro-batches give the bytes of started ones
#   checkpoint FAMILY    device, host and device again go on from each other's checkpoints
#   refused              two ranks on one device need a key
#   without HOOK         a negative control: what ESPALIER_TEST_BREAK=HOOK leaves out must be noticed
# Bounds  fp32 1e-4: other orders of sums, let grow by 20 updates; bf16 1e-2, about two of its
#         epsilons: a difference in the last bit of a product is rounded to one in the last of bf16
set -euo pipefail
program=$1 host=$2 launcher=$3 flag=$4 inputs=$5 action=$6
shift 6
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=validation/layouts/layouts.sh
. "$here/../layouts/layouts.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "${ESPALIER_NEEDS_GPU:-0}" = 1 ] && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "skipped: no GPU that this process may use"
  exit 77
fi
if [ "$host" = - ] && { [ "$action" = host ] || [ "$action" = checkpoint ]; }; then
  echo "skipped: no program for the host to compare with"
  exit 77
fi

# Small enough for an emulator; llama has heads that the tensor cores take.
family_settings() { # FAMILY TYPE
  printf '%s\n' "${common[@]}" batch.seq_length=24 batch.global_batch_size=4 model.num_layers=2 \
    numerics.virtual_tensor_parallel=2 "numerics.compute_type=$2" grid.share_devices=true
  case $1 in
    llama) printf '%s\n' model.num_heads=2 model.num_kv_heads=2 model.head_dim=64 ;;
    gpt2) ;;
    *) echo "program.sh: no family '$1'" >&2; exit 2 ;;
  esac
}
bound_of() { # TYPE
  case $1 in
    fp32) echo 1e-4 ;;
    bf16) echo 1e-2 ;;
    *) echo "program.sh: no bound for $1" >&2; exit 2 ;;
  esac
}
settings_of() { # FAMILY TYPE: into the array `settings`
  mapfile -t common < <(common_settings)
  mapfile -t settings < <(family_settings "$@")
}

must_train() { # RANKS FOLDER FAMILY [key=value ...]
  train "$1" "$2" "$inputs/$3-tiny.toml" "${settings[@]}" "${@:4}" ||
    { echo "FAILED: exit code $?"; cat "$2.command" "$2.log"; exit 1; }
  is_whole "$2" || { echo "FAILED: the metrics are not whole"; cat "$2.command"; exit 1; }
}

expect_close() { # NAME ONE MANY TYPE
  local most bound
  most=$(loss_difference "$2" "$3") bound=$(bound_of "$4")
  if [ -n "$most" ] && awk -v d="$most" -v b="$bound" 'BEGIN { exit !(d <= b) }'; then
    echo "close  $most of $bound  $1"
  else
    echo "WRONG  ${most:-other tokens}, $bound is allowed  $1"
    cat "$2.command" "$3.command"
    exit 1
  fi
}

close_runs() { # NAME FAMILY TYPE KEY: by the host program where KEY is empty
  steps=20
  settings_of "$2" "$3"
  settings+=(numerics.reproducible=false optimizer.learning_rate=0.001 optimizer.gradient_clip=1.0)
  must_train 1 "$work/device" "$2"
  if [ -n "$4" ]; then
    must_train 1 "$work/other" "$2" "$4"
  else
    program=$host must_train 1 "$work/other" "$2"
  fi
  expect_close "$1 $2 $3" "$work/other" "$work/device" "$3"
  # Two programs, or two sets of kernels, do not round alike: equal bits would mean that one ran
  # twice.
  if cmp -s <(record "$work/device") <(record "$work/other"); then
    echo "WRONG: the same bits, so the same kernels"
    exit 1
  fi
}

layouts() { # FAMILY
  local line words bad=0 count=0 type=fp32
  [ "$1" != llama ] || type=bf16
  settings_of "$1" $type
  must_train 1 "$work/one" "$1"
  while read -r line; do
    read -r -a words <<<"$line"
    split_words "${words[@]:1}"
    local code=0
    train "${words[0]}" "$work/many-$count" "$inputs/$1-tiny.toml" "${settings[@]}" "${grid[@]}" ||
      code=$?
    judge "$1 $type $line" "$work/one" "$work/many-$count" $code || bad=$((bad + 1))
    count=$((count + 1))
  done <"$here/program_layouts.txt"
  echo "$count layouts, $bad of them wrong"
  [ $count -gt 0 ] && [ $bad -eq 0 ]
}

graphs() { # FAMILY TYPE
  settings_of "$1" "$2"
  settings+=(numerics.reproducible=false)
  must_train 1 "$work/off" "$1" numerics.graphs=false
  must_train 1 "$work/on" "$1" numerics.graphs=true
  judge "graphs $1 $2" "$work/off" "$work/on" 0
}

# resume PROGRAM FAMILY FOLDER STEPS: goes on in a folder up to that step
resume() {
  local folder=$work/$3 word
  local command=("$launcher" "$flag" 1 "$1" train "$inputs/$2-tiny.toml" --resume
    --set "run.directory=$folder" --set "run.steps=$4")
  for word in "${settings[@]}"; do
    [ "${word%%=*}" = run.steps ] || command+=(--set "$word")
  done
  quote "${command[@]}" >"$folder.command"
  timeout 120 "${command[@]}" </dev/null >>"$folder.log" 2>&1 ||
    { echo "FAILED: exit code $?"; cat "$folder.command" "$folder.log"; exit 1; }
}

checkpoint() { # FAMILY
  local saving=(checkpoint.interval=10 checkpoint.keep_last=9 checkpoint.transfer=independent
    optimizer.learning_rate=0.001) at=checkpoints/step-00000000
  steps=30
  settings_of "$1" fp32
  settings+=("${saving[@]}")
  must_train 1 "$work/straight" "$1"
  steps=10
  settings_of "$1" fp32
  settings+=("${saving[@]}")
  must_train 1 "$work/relay" "$1"
  cmp "$work/relay/${at}10/state.h5" "$work/straight/${at}10/state.h5"
  "$host" checkpoint verify "$work/relay" >"$work/verify.log" || { cat "$work/verify.log"; exit 1; }
  cp -r "$work/relay" "$work/again"
  # The device goes on from its own file with the bytes of a run that was never stopped.
  resume "$program" "$1" again 20
  cmp "$work/again/${at}20/state.h5" "$work/straight/${at}20/state.h5"
  ! grep -q 'changed since the checkpoint: the build' "$work/again.log" ||
    { echo "WRONG: the same build is called another"; exit 1; }
  # The host from the device's, and the device from the host's.
  resume "$host" "$1" relay 20
  grep -q 'changed since the checkpoint: the build' "$work/relay.log" ||
    { echo "WRONG: another build is not told of"; exit 1; }
  ! cmp -s "$work/relay/${at}20/state.h5" "$work/straight/${at}20/state.h5" ||
    { echo "WRONG: the host gave the bits of the device"; exit 1; }
  resume "$program" "$1" relay 30
  steps=30
  is_whole "$work/relay" || { echo "FAILED: the metrics are not whole"; exit 1; }
  expect_close "device, host, device: $1" "$work/straight" "$work/relay" fp32
}

refused() {
  settings_of gpt2 fp32
  local code=0
  train 2 "$work/two" "$inputs/gpt2-tiny.toml" "${settings[@]}" grid.share_devices=false || code=$?
  cat "$work/two.log"
  [ $code -ne 0 ] && [ $code -ne 124 ] && grep -q share_devices "$work/two.log"
}

without() { # HOOK
  settings_of gpt2 fp32
  local code=0
  must_train 1 "$work/one" gpt2
  ESPALIER_TEST_BREAK=$1 train 2 "$work/two" "$inputs/gpt2-tiny.toml" "${settings[@]}" || code=$?
  grep -q "ESPALIER_TEST_BREAK=$1" "$work/two.log" ||
    { cat "$work/two.log"; echo "nothing asked for $1"; exit 1; }
  [ $code -ne 124 ] || { echo "hung"; exit 1; }
  if judge "without $1" "$work/one" "$work/two" $code; then
    echo "not noticed"
    exit 1
  fi
  echo "noticed"
}

case $action in
  host) close_runs host "$1" "$2" "" ;;
  kernels) close_runs portable "$1" "$2" numerics.kernels=portable ;;
  layouts) layouts "$1" ;;
  graphs) graphs "$1" "$2" ;;
  checkpoint) checkpoint "$1" ;;
  refused) refused ;;
  without) without "$1" ;;
  *) echo "program.sh: no case '$action'" >&2; exit 2 ;;
esac
