#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: real text in several languages, a small model on 2 ranks for about two minutes, its
# held-out loss beside that of a byte-bigram model, samples, and a report. From the repository's
# root, after `make build`. Fails when a stage fails or the model does not beat the bigram.
# Usage: scripts/demo.sh [folder of the programs]   (default build/release/bin)
set -euo pipefail
# shellcheck source=scripts/site.sh
. scripts/site.sh
bin=${1:-build/release/bin}
books=${DEMO_BOOKS:-/usr/share/debian-reference}  # the same book, gzipped text, one file a language
ranks=${DEMO_RANKS:-2}
run=demo/run
export OMP_NUM_THREADS=1 # a rank is a core

stage() { printf '\n== %s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

found=0
for language in en de fr es it pt ja zh-cn; do
  [ -r "$books/debian-reference.$language.txt.gz" ] && found=$((found + 1))
done
[ "$found" -eq 8 ] || fail "only $found of 8 debian-reference.LANGUAGE.txt.gz in $books;
  on Debian run make demo (it installs debian-reference-en, -de, ...), else set DEMO_BOOKS to a
  folder with such files"
mkdir -p demo

launch=("${MPIEXEC:-mpiexec}" "${MPIEXEC_NUMPROC_FLAG:--n}" "$ranks")
[ -n "${MPIEXEC_PREFLAGS:-}" ] && launch+=("$MPIEXEC_PREFLAGS")

stage "corpus: inputs/demo-corpus.toml, $found languages, $ranks ranks"
sed "s|/usr/share/debian-reference|$books|" inputs/demo-corpus.toml >demo/corpus.toml
"${launch[@]}" "$bin/espalier-spmd" corpus build demo/corpus.toml --overwrite

stage "baseline: byte unigram and bigram on what the run validates on"
"$bin/espalier" corpus baseline --deck inputs/demo.toml --json demo/baseline.json

stage "train: inputs/demo.toml on $ranks ranks"
"${launch[@]}" "$bin/espalier-spmd" train inputs/demo.toml --overwrite
cp demo/baseline.json "$run/baseline.json" # the report draws it beside the loss

stage "samples"
sample() {
  printf '\n[%s]\n' "$1"
  "$bin/espalier" generate "$run" --prompt "$2" --tokens 240 --temperature 0.7 --seed 1
  printf '\n'
}
{
  sample English 'The Debian system '
  sample Deutsch 'Das Debian-System '
} | tee "$run/samples.txt"

stage "report"
"$bin/espalier" report "$run"

number='[-+.eE0-9][-+.eE0-9]*'
bigram=$(tr -d '\n' <demo/baseline.json |
  sed -n "s/.*\"bigram\"[^}]*\"nats_per_token\": *\($number\).*/\1/p")
model=$(grep -F '"validation"' "$run/metrics.jsonl" | tail -n 1 |
  sed -n "s/.*\"loss\": *\($number\).*/\1/p")
[ -n "$bigram" ] || fail "demo/baseline.json holds no bigram.nats_per_token"
[ -n "$model" ] || fail "$run/metrics.jsonl holds no validation loss (monitor.validation_interval)"

stage "held-out loss, nats a byte"
LC_ALL=C printf '  byte bigram   %.4f\n  this model    %.4f\n' "$bigram" "$model"
[ -s "$run/report.html" ] || fail "$run/report.html was not written"
echo "  report        $run/report.html"
awk -v m="$model" -v b="$bigram" 'BEGIN { exit !(m < b) }' ||
  fail "the model did not beat the bigram: its held-out loss must be below $bigram"
