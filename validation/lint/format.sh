#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C++ and CUDA file is as clang-format 14 writes it (another version would differ; exit code
# 77, skipped, where 14 is not installed). A file that is not is named with its first such line.
# Usage: format.sh TREE
set -u
program=$(command -v clang-format-14) || { echo "clang-format-14 is not installed"; exit 77; }
cd "$1" || exit 2
find src cuda validation -type f | grep -E '\.(cpp|hpp|cu|cuh)$' |
  xargs "$program" --dry-run --Werror --ferror-limit=1 || {
  echo "make format mends this"
  exit 1
}
