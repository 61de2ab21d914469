# SPDX-License-Identifier: Apache-2.0
# What the drills of corpus builds share; sourced by drills.sh, which has set bin (folder of the
# programs), launcher and flag (of a number of ranks), references, work and folder.
# shellcheck shell=bash disable=SC2034,SC2154

trials=0 bad=0
tokenizer=$references/llama2.json

# A corpus of several hundred pieces of text: awk with a generator of its own (Park and Miller
# 1988), so that it is the same everywhere. Kinds of faults, equal and nearly equal documents, ten
# scripts' worth of odd characters.
make_inputs() { # FOLDER
  mkdir -p "$1"/{prose,packed,pages}
  local part
  for part in 1 2 3; do text $part 900 | fold -s -w 90 >"$1/prose/$part.txt"; done
  for part in 4 5; do text $part 500 | fold -s -w 80 | gzip -n >"$1/packed/$part.txt.gz"; done
  for part in 6 7; do text $part 500 | fold -s -w 80 | zstd -q >"$1/packed/$part.txt.zst"; done
  text 8 700 | awk '{ print; if (NR % 5 == 0) print; if (NR % 7 == 0) { sub(/ [^ ]* /, " changed "); print }
                      if (NR % 50 == 0) print "short"
                      if (NR % 60 == 0) print "\001control\r" $0 }' >"$1/lines.txt"
  printf 'broken \377\376 bytes in a line that is long enough to stay\n' >>"$1/lines.txt"
  text 9 500 | awk '{ print; if (NR % 4 == 0) print "<|end|>"
                      if (NR % 100 == 0) { for (i = 0; i < 8; ++i) print "again and again"; print "<|end|>" } }' \
    >"$1/parted.txt"
  text 10 700 | awk '{ gsub(/["\\]/, ""); printf "{\"id\": %d, \"text\": \"%s\"}\n", NR, $0
                       if (NR % 40 == 0) print "{\"text\": no json}"
                       if (NR % 55 == 0) print "{\"body\": \"no text\"}"
                       if (NR % 70 == 0) print "{\"text\": \"  \"}" }' >"$1/records.jsonl"
  for part in $(seq 11 40); do
    { echo "<html><head><title>$part</title><script>var x;</script></head><body>"
      text "$part" 12 | sed 's/^/<p>/; s/$/ \&amp; so on<\/p>/'
      echo "</body></html>"; } >"$1/pages/$part.html"
  done
}

text() { # SEED LINES
  awk -v seed="$1" -v lines="$2" '
    function draw(n) { state = (state * 16807) % 2147483647; return state % n }
    BEGIN {
      state = seed * 48271 + 11
      for (i = 0; i < 5; ++i) draw(2)
      n = split("the of and to in that tree wall branch winter summer rank grid token shard piece " \
                "été naïve größe übung città señor київ мова слово λόγος שלום سلام 日本語 文字 한국어 हिन्दी ไทย " \
                "espalier pruned against a trellis one two three. four, five; (six) seven-eight 42 1999", w, " ")
      for (l = 0; l < lines; ++l) {
        s = ""
        for (k = 8 + draw(14); k > 0; --k) s = s w[1 + draw(n)] draw(1000) % 7 " "
        print s
      }
    }'
}

# The deck: all kinds of sources, every step of cleaning; pieces so small that there are dozens.
make_deck() { # INPUTS > DECK
  cat <<END
[build]
held_out = 0.15
seed = 3
shard_mib = 0.012
longest_document_mib = 0.5
[clean]
normalise = "nfc"
remove_control = true
min_characters = 20
max_symbol_ratio = 0.5
max_repeated_lines = 0.5
deduplicate = "near"
similarity = 0.8
shingle = 5
[[source]]
name = "prose"
paths = ["$1/prose", "$1/packed/*.gz"]
documents = "size"
document_bytes = 700
language = "en"
weight = 2.0
[[source]]
name = "packed"
paths = ["$1/packed/*.zst"]
documents = "size"
document_bytes = 900
[[source]]
name = "lines"
paths = ["$1/lines.txt"]
documents = "line"
[[source]]
name = "parted"
paths = ["$1/parted.txt"]
documents = "separator"
separator = "<|end|>"
[[source]]
name = "records"
paths = ["$1/records.jsonl"]
[[source]]
name = "pages"
paths = ["$1/pages"]
END
}

# trial NAME: begins one; its store is $store, all that belongs to it in the folder $run.
trial() {
  name=$1
  trials=$((trials + 1))
  run=$folder/trial-$trials
  store=$run/store
  mkdir -p "$run"
  is_bad=no
}

fault() {
  echo "WRONG     $name: $1"
  [ $is_bad = yes ] || tail -n 5 "$run.said" 2>/dev/null | sed 's/^/  | /' || true
  is_bad=yes
}

conclude() {
  if [ $is_bad = yes ]; then
    bad=$((bad + 1))
    echo "  $(cat "$run.command" 2>/dev/null || true)"
    echo "  kept: $run"
  else
    rm -rf "$run" "$run".*
  fi
}

# command_of RANKS: the program's words in $program; 0 ranks is espalier alone.
command_of() {
  if [ "$1" -eq 0 ]; then
    program=("$bin/espalier")
  else
    program=("$launcher" "$flag" "$1" "$bin/espalier-spmd")
  fi
}

# build RANKS DECK [--option ...] [key=value ...]: into $store; its code in $code, its words in
# $run.said.
build() {
  local word words=()
  command_of "$1"
  words=("${program[@]}" corpus build "$2" --set "build.output=$store")
  shift 2
  for word in "$@"; do
    case $word in
      --*) words+=("$word") ;;
      *) words+=(--set "$word") ;;
    esac
  done
  printf '%q ' "${words[@]}" >"$run.command"
  code=0
  timeout --kill-after=5 60 "${words[@]}" </dev/null >"$run.said" 2>&1 || code=$?
  [ $code -ne 124 ] && [ $code -ne 137 ] || fault "it hung"
}

# verify RANKS STORE
verify() {
  command_of "$1"
  verdict=0
  timeout 60 "${program[@]}" corpus verify "$2" </dev/null >"$run.verify" 2>&1 || verdict=$?
}

said() { grep -qE -- "$1" "$run.said"; }
must_say() { said "$1" || fault "it does not say: $1"; }
must_exit() { [ "$code" -eq "$1" ] || fault "exit code $code, not $1"; }
must_die() { [ "$code" -ne 0 ] || fault "it was not killed"; }
must_have_one_error() {
  [ "$(grep -c '^error:' "$run.said")" -eq 1 ] ||
    fault "$(grep -c '^error:' "$run.said") messages, not one"
}

# The store is that of REFERENCE byte for byte, and nothing else is left.
must_equal() { # REFERENCE
  must_exit 0
  diff -r "$1" "$store" >"$run.diff" 2>&1 || fault "it differs: $(head -n 4 "$run.diff")"
  [ "$(ls -A "$run")" = "$(basename "$store")" ] || fault "remains are left: $(ls -A "$run")"
}

# Pieces that a killed build has finished, and all.
finished_pieces() {
  { find "$store.building/work" -name 'piece-*.json' 2>/dev/null || true; } | wc -l
}
must_go_on() { # FINISHED
  [ "$1" -eq 0 ] || must_say "went on with an unfinished build: $1 of [0-9]+ pieces were there"
  [ "$1" -ne 0 ] || ! said 'went on with' || fault "it went on with what was not there"
}

# draw N: a number below N in $drawn; the same sequence for the same seed.
seed_draws() { draw_state=$((($1 * 48271 + 11) % 2147483647)); draw 2; draw 2; draw 2; }
draw() {
  draw_state=$((draw_state * 16807 % 2147483647))
  [ $draw_state -ne 0 ] || draw_state=1
  drawn=$((draw_state % $1))
}

# await COMMAND ...: until it succeeds; fails when the job is over or after 20 s.
await() {
  local i
  for ((i = 0; i < 2000; ++i)); do
    if "$@" 2>/dev/null; then return 0; fi
    kill -0 "$job" 2>/dev/null || return 1
    sleep 0.01
  done
  return 1
}
