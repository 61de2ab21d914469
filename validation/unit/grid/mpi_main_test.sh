#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Demands that a test program under the launcher fails as a whole when one rank does, and says which.
# Usage: mpi_main_test.sh CASE LAUNCHER NUMPROC_FLAG PROGRAM
#   throw    one rank throws while the others wait for it
#   fail     one rank fails an expectation
#   no_test  the filter matches nothing
set -u
case $1 in
  throw) filter=Control.DISABLED_OneRankThrows expect='rank 2 of 3: thrown on purpose' ;;
  fail) filter=Control.DISABLED_OneRankFails expect='[rank 1]' ;;
  no_test) filter=Nothing.AtAll expect='no test matches the filter Nothing.AtAll' ;;
  *) echo "mpi_main_test.sh: no case '$1'" >&2; exit 2 ;;
esac
output=$("$2" "$3" 3 "$4" --gtest_also_run_disabled_tests --gtest_filter="$filter" 2>&1)
code=$?
echo "$output"
[ $code -ne 0 ] || { echo "exit code 0, but a rank failed"; exit 1; }
case $output in
  *"$expect"*) ;;
  *) echo "the output does not say: $expect"; exit 1 ;;
esac
