# SPDX-License-Identifier: Apache-2.0
# Exit codes and messages of espalier corpus; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# expect CODE TEXT ... -- WORD ...: espalier corpus WORD ... ends so and says all of it; a TEXT that
# begins with ! must not be said.
expect() {
  local wanted=$1 texts=() text
  shift
  while [ "$1" != -- ]; do texts+=("$1"); shift; done
  shift
  printf '%q ' espalier corpus "$@" >"$run.command"
  code=0
  timeout 60 "$bin/espalier" corpus "$@" </dev/null >"$run.said" 2>&1 || code=$?
  must_exit "$wanted"
  for text in "${texts[@]}"; do
    case $text in
      !*) ! grep -qF -- "${text#!}" "$run.said" || fault "corpus $1 says: ${text#!}" ;;
      *) grep -qF -- "$text" "$run.said" || fault "corpus $1 does not say: $text" ;;
    esac
  done
}

# Without a deck.
verb_build() {
  local inputs=$work/inputs
  trial "corpus build"
  expect 2 'inputs is required' -- build
  expect 2 '2 files without --out; name one corpus deck' -- build a.txt b.txt
  expect 2 'no-such.toml: cannot read the deck' -- build no-such.toml
  expect 2 '--held-out' -- build "$near" --held-out 0.1
  expect 2 'outside [0, 1); try 0.05' -- build "$inputs/lines.txt" --out "$store" --held-out 1
  expect 2 '--set goes with a deck' -- build "$inputs/lines.txt" --out "$store" --set build.seed=3
  expect 2 'must be at least 64' -- build "$inputs/lines.txt" --out "$store" --document-bytes 3
  expect 2 'is no language tag' -- build "$inputs/lines.txt" --out "$store" --language 1e
  expect 2 'build.shard_mb is not a key' 'did you mean' -- build "$near" --set build.shard_mb=3
  expect 4 'missing.txt' -- build "$inputs/missing.txt" --out "$store"
  [ -z "$(ls -A "$run")" ] || fault "something was made: $(ls -A "$run")"
  expect 0 "$store: built by 1 process in" 'train/text' 'validation/text' 'MB/s of text' \
    '!went on' -- build "$inputs/lines.txt" "$inputs/prose" --out "$store" --held-out 0.2 \
    --document-bytes 500 --language en --seed 4
  expect 3 'a token store is there already' -- build "$inputs/lines.txt" --out "$store"
  expect 0 'built by 1 process' -- build "$inputs/lines.txt" --out "$store" --overwrite
  expect 4 'no document fell to validation' 'give more documents' -- \
    build "$inputs/lines.txt" --out "$store" --overwrite --held-out 0.1
  expect 2 'min_characters = 5000, so every document is dropped' -- build "$near" --set \
    "build.output=$store" --set clean.max_characters=30 --set clean.min_characters=5000
  conclude
  trial "warnings of a build"
  expect 0 'warning: ' 'checks nothing where the language is not known' 'bad_json: 17' \
    'missing_field: 12' 'records.jsonl:41: ' 'broken_utf8: 1' -- build "$near" --set \
    "build.output=$store" --set clean.min_script_share=0.1
  [ "$(grep -c 'checks nothing where' "$run.said")" -eq 5 ] || fault "not once for each source"
  conclude
}

verb_inspect() {
  trial "corpus inspect, verify and show"
  expect 0 'tokenizer bytes, vocab_size 257' 'held out 0.15 (seed 3)' 'train/prose' 'pages' \
    'bad_json: 17' 'dropped' 'duplicates' -- inspect "$work/near.store"
  expect 0 'tokenizer bytes' 'tokenizer huggingface:' -- inspect "$work/near.store" "$work/plain.store"
  expect 0 'format 1, tokenizer bytes' -- inspect "$work/near.store/train/prose-00000.tok"
  expect 4 'no-such' 'tokenizer bytes' -- inspect no-such "$work/near.store"
  expect 4 'is no token store (it has no manifest.json)' -- inspect "$work/inputs"
  expect 0 'shards are sound' 'documents was decoded and compared' -- verify "$work/near.store"
  expect 0 'shards are sound' -- verify "$work/plain.store" "$work/near.store"
  expect 0 'checksum is right' -- verify "$work/near.store/train/prose-00000.tok"
  expect 4 'is no token store' 'shards are sound' -- verify "$work/inputs" "$work/near.store"
  expect 4 'its documents are 0 to' -- show "$work/near.store" 100000000
  expect 4 'has no document -1' -- show "$work/near.store" -1
  expect 2 '--raw' -- show "$work/near.store" 0 --raw --tokens
  expect 0 -- show "$work/near.store" 3
  # Documents are lines of the input: the fourth from lines.txt by its place in the store.
  local number text
  number=$("$bin/espalier" corpus inspect "$work/near.store" 2>/dev/null |
    awk '$1 == "train/prose" || $1 == "train/packed" { n += $4 == "" ? 0 : $(NF - 3) } END { print n + 3 }')
  text=$("$bin/espalier" corpus show "$work/near.store" "$number" --raw)
  grep -qxF -- "$(sed 's/ *$//' <<<"$text")" <(sed 's/ *$//' "$work/inputs/lines.txt") ||
    fault "document $number is no line of lines.txt: $text"
  [ "$("$bin/espalier" corpus show "$work/near.store" "$number" --tokens)" = \
    "$(printf %s "$("$bin/espalier" corpus show "$work/near.store" "$number" --raw; echo x)" |
      sed '$ s/x$//' | od -An -v -tu1 | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')" ] ||
    fault "the tokens of document $number are not its bytes"
  conclude
}

verb_baseline() {
  trial "corpus baseline"
  expect 0 'unigram: ' 'bigram: ' 'predictions counted in training text' -- baseline --train \
    "$work/near.store" --validation "$work/near.store" --json "$run/b.json"
  grep -q '"bits_per_byte"' "$run/b.json" || fault "no numbers in the JSON"
  expect 4 'no-such' -- baseline --train no-such --validation "$work/near.store"
  expect 2 '--validation' -- baseline --train "$work/near.store"
  expect 4 'cannot be written' -- baseline --train "$work/near.store" --validation \
    "$work/near.store" --json "$run/no/b.json"
  conclude
}

# A model twice: the same bytes; a store by it keeps every text.
verb_tokenizer() {
  local model words
  trial "corpus train-tokenizer"
  expect 2 'build.output is missing' -- train-tokenizer "$near"
  expect 2 'train_tokenizer.output is missing' -- train-tokenizer "$near" --set build.output=x
  expect 4 'vocab_size = 5000 is too large for this sample' -- train-tokenizer "$near" --set \
    "train_tokenizer.output=$run/x.model" --set train_tokenizer.vocab_size=5000 --set \
    train_tokenizer.model=unigram --set train_tokenizer.sample_mib=0.1
  for model in bpe unigram; do
    words=("$near" --set "train_tokenizer.output=$run/$model.model" --set train_tokenizer.model=$model
      --set train_tokenizer.vocab_size=400 --set train_tokenizer.sample_mib=0.1)
    expect 0 "$model.model: 400 pieces" 'use it: [tokenizer] kind = "sentencepiece"' 'sample: ' -- \
      train-tokenizer "${words[@]}"
    cp "$run/$model.model" "$run/first"
    expect 3 'is there already' '--overwrite' -- train-tokenizer "${words[@]}"
    expect 0 -- train-tokenizer "${words[@]}" --overwrite
    cmp -s "$run/first" "$run/$model.model" || fault "two trainings give two models"
    build 2 "$near" tokenizer.kind=sentencepiece "tokenizer.path=$run/$model.model"
    must_exit 0
    expect 0 'was decoded and compared' -- verify "$store"
    rm -r "$store"
  done
  expect 4 'its folder' -- train-tokenizer "$near" --set "train_tokenizer.output=$run/no/x.model"
  expect 4 -- build "$near" --set "build.output=$store" --set tokenizer.kind=sentencepiece --set \
    "tokenizer.path=$near"
  conclude
}

verb_check() {
  trial "espalier check and deck --corpus"
  code=0
  "$bin/espalier" check "$near" --set build.output=x >"$run.said" 2>&1 || code=$?
  must_exit 0
  must_say 'no faults'
  must_say 'source packed: 2 files, .*, 2 pieces'
  must_say 'records.jsonl \(jsonl, '
  must_say 'packed/4.txt.gz \(text in gzip, '
  [ ! -e x ] && [ ! -e x.building ] || fault "check made something"
  code=0
  "$bin/espalier" check "$near" --set build.output=x --ranks 2 >"$run.said" 2>&1 || code=$?
  must_exit 2
  code=0
  "$bin/espalier" check "$near" --set build.seed=-1 >"$run.said" 2>&1 || code=$?
  must_exit 2
  must_say 'build.seed = -1'
  must_say 'build.output is missing'
  "$bin/espalier" deck --corpus >"$run.said"
  must_say '^\[\[source\]\]'
  conclude
}

drill_verbs() {
  verb_build
  verb_inspect
  verb_baseline
  verb_tokenizer
  verb_check
}
