#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A negative control: a test program in which something is broken on purpose must fail, and not by
# the clock.
# Usage: ESPALIER_TEST_BREAK=THING fails.sh PROGRAM [ARGUMENT ...]
set -uo pipefail
out=$(timeout --kill-after=5 60 "$@" 2>&1)
code=$?
tail -n 15 <<<"$out"
grep -q "ESPALIER_TEST_BREAK=$ESPALIER_TEST_BREAK" <<<"$out" ||
  { echo "nothing asked for $ESPALIER_TEST_BREAK"; exit 1; }
case $code in
  0) echo "not noticed"; exit 1 ;;
  124 | 137) echo "hung"; exit 1 ;;
  *) echo "noticed (exit code $code)" ;;
esac
