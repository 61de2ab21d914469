#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Configures a preset, from scratch when the site facts have changed since (a build folder cannot
# change its compiler). Usage: scripts/configure.sh PRESET [-DNAME=VALUE ...], from the root.
set -eu
. scripts/site.sh
preset=$1
shift
folder=build/$preset
facts=$(sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' Makefile.inc | grep -v JOBS |
  while read -r name; do eval "echo \"$name=\$$name\""; done)
fresh=
if [ -f "$folder/CMakeCache.txt" ] && [ "$(cat "$folder/site-facts.txt" 2>/dev/null)" != "$facts" ]; then
  echo "configure: the site facts have changed; configuring $folder from scratch"
  fresh=--fresh
fi
rm -f "$folder/site-facts.txt" # written again when this run succeeds
# shellcheck disable=SC2086  # empty or one word
cmake $fresh --preset "$preset" --log-level=NOTICE "$@"
echo "$facts" >"$folder/site-facts.txt"
