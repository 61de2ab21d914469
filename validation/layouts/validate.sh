#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# espalier validate from end to end, and each way in which it must fail.
# Usage: validate.sh CASE ESPALIER_FOLDER LAUNCHER NUMPROC_FLAG DECK_FOLDER
set -uo pipefail
case=$1 bin=$2 mpiexec=$3 flag=$4 decks=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset ESPALIER_LAUNCHER SLURM_JOB_ID
site="$mpiexec $flag {ranks}"

# A launcher that does something else on several ranks: launcher NAME COMMAND
launcher() {
  printf '#!/bin/sh\nranks=$1; shift\nif [ "$ranks" != 1 ]; then %s; fi\nexec "%s" %s "$ranks" "$@"\n' \
    "$2" "$mpiexec" "$flag" >"$1"
  chmod +x "$1"
}

# expect CODE ARGUMENTS...: validates, demands the exit code, leaves the text in $text
expect() {
  local code=$1 got=0
  shift
  text=$("$bin/espalier" validate "$@" 2>&1) || got=$?
  echo "$text"
  [ "$got" -eq "$code" ] || fail "exit code $got instead of $code"
}
fail() { echo "FAILED: $*"; exit 1; }
says() { for part in "$@"; do grep -qF -- "$part" <<<"$text" || fail "not said: $part"; done; }
holds() { grep -qF -- "$2" "$1" || fail "$1 does not hold $2"; }

tiny=$decks/tiny.toml
set_same=(--set numerics.reproducible=true)
case $case in
  same)
    expect 0 "$tiny" --layouts dp2,dp4 --launcher "$site" "${set_same[@]}"
    says "2 of 2 layouts pass; every bit must be the same"
    holds runs/tiny-validate/validate.json '"failures": 0'
    holds runs/tiny-validate/validate.json '"unequal_elements": 0'
    holds runs/tiny-validate/validate.html '<td class="pass">pass</td>'
    ;;
  close)
    expect 0 "$tiny" --layouts dp2 --launcher "$site" --steps 20 --directory w
    says "1 of 1 layouts pass; allowed: loss 1e-05"
    # The same runs against a limit that rounding breaks: the numbers are not zeros.
    expect 5 "$tiny" --layouts dp2 --launcher "$site" --steps 20 --directory w --overwrite \
      --tolerance 1e-14
    says "FAIL dp2: the loss differs by"
    ;;
  ranks)
    ESPALIER_LAUNCHER=$site expect 0 "$tiny" --ranks 2 "${set_same[@]}"
    says "layouts of up to 2 ranks, 5 steps each" "dp2"
    ;;
  broken)
    launcher break.sh 'export ESPALIER_TEST_BREAK=tensor_sum'
    for mode in true false; do
      expect 5 "$tiny" --layouts tp2 --launcher "$work/break.sh {ranks}" --overwrite \
        --set numerics.reproducible=$mode
      says "FAIL tp2:" "the gradient norm differs by" "1 of 1 layouts FAIL"
    done
    holds runs/tiny-validate/validate.json '"failures": 1'
    ;;
  no_layout)
    expect 2 "$tiny" --layouts dp2,tq2 --launcher "$site"
    says '"tq2" of "tq2" is no part of a layout'
    expect 2 "$tiny" --layouts dp2,tp3,dp16 --launcher "$site"
    says "tp3: --set: grid.tensor_parallel = 3" "dp16:" "nothing was run"
    expect 2 "$tiny" --launcher "$site"
    says "say which layouts"
    [ ! -e runs ] || fail "something was run"
    ;;
  no_launcher)
    expect 3 "$tiny" --layouts dp2 --launcher "no-such-launcher {ranks}"
    says "cannot start no-such-launcher" "--launcher"
    expect 3 "$tiny" --layouts dp2 --launcher "/bin/false {ranks}"
    says "the run on one rank failed" "exit code 1" "reference.log"
    expect 2 "$tiny" --layouts dp2 --launcher "mpiexec -n 4"
    says "does not say where the number of ranks goes"
    ;;
  one_fails)
    launcher odd.sh 'if [ "$ranks" = 2 ]; then echo "no such queue"; exit 9; fi'
    expect 5 "$tiny" --layouts dp2,dp4 --launcher "$work/odd.sh {ranks}" "${set_same[@]}"
    says "FAIL dp2: exit code 9" "no such queue" "1 of 2 layouts FAIL" "[2/2] dp4 on 4 ranks"
    ;;
  timeout)
    launcher slow.sh 'if [ "$ranks" = 2 ]; then echo waiting; sleep 300; fi'
    expect 5 "$tiny" --layouts dp2,dp4 --launcher "$work/slow.sh {ranks}" --timeout 20 \
      "${set_same[@]}"
    says "FAIL dp2: no end after 20.0 s (--timeout)" "waiting" "1 of 2 layouts FAIL"
    ;;
  overwrite)
    expect 0 "$tiny" --layouts dp2 --launcher "$site" "${set_same[@]}"
    expect 3 "$tiny" --layouts dp2 --launcher "$site" "${set_same[@]}"
    says "is there already" "--overwrite"
    expect 0 "$tiny" --layouts dp2 --launcher "$site" "${set_same[@]}" --overwrite
    ;;
  *) fail "no case $case" ;;
esac
