#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: compare_with_torch.sh FOLDER PROGRAM DECK   dump the deck's gradients, compare with PyTorch
#        compare_with_torch.sh FOLDER --golden DUMP  compare a golden dump with PyTorch
# Then demands that every fault built into the reference is noticed.
# ESPALIER_LAUNCH: a launcher with its options; ESPALIER_ORACLE_PYTHON: default /usr/bin/python3.
# Exit codes: 0 agreed, 1 not, 77 no python3 with torch and h5py.
set -u
folder=$1 program=$2 input=$3
oracle=$(dirname "$0")/oracle.py
python=${ESPALIER_ORACLE_PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1

"$python" "$oracle" --list-breaks > /dev/null
case $? in
  0) ;;
  77 | 127)
    echo "skipped: $python has no torch or h5py (apt install python3-torch python3-h5py)"
    exit 77
    ;;
  *) exit 1 ;;
esac
dump=$input
if [ "$program" != --golden ]; then
  mkdir -p "$folder" || exit 1
  dump=$folder/$(basename "$input" .toml).h5
  rm -f "$dump"
  # shellcheck disable=SC2086  # a launcher with its options
  ${ESPALIER_LAUNCH:-} "$program" debug gradients "$input" --out "$dump" || exit 1
fi
"$python" "$oracle" compare "$dump" || exit 1
exec "$python" "$oracle" controls "$dump"
