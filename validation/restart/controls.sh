#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Negative controls: a resume that leaves one thing out (ESPALIER_TEST_BREAK) must end differently,
# or the tests of this folder would see nothing.
# Usage: controls.sh ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG INPUTS
set -euo pipefail
bin=$1 launcher=$2 flag=$3 inputs=$4
. "$(dirname "$0")/restart.sh"
mapfile -t common < <(restart_settings)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
deck=$inputs/gpt2-tiny.toml bad=0

# try HOOK RANKS [key=value ...]
try() {
  local hook=$1 ranks=$2 code
  shift 2
  rm -rf "${work:?}"/*
  start "$ranks" "$work/one" "$deck" "${common[@]}" "$@" || { cat "$work/one.log"; exit 1; }
  ESPALIER_TEST_KILL=save.retention:0 start "$ranks" "$work/first" "$deck" "${common[@]}" "$@" || true
  for broken in "" "$hook"; do
    rm -rf "$work/many" "$work/many".*
    cp -r "$work/first" "$work/many"
    code=0
    ESPALIER_TEST_BREAK=$broken start "$ranks" "$work/many" "$deck" --resume "${common[@]}" "$@" ||
      code=$?
    expect_end "$hook" "$broken" "" "$work/one" "$work/many" $code
  done
}

try resume_updates 1
try resume_position 1
try resume_gather 2 grid.zero_stage=1
try resume_loss_scale 1 numerics.compute_type=fp16 numerics.loss_scale_growth_steps=4
[ $bad -eq 0 ]
