# SPDX-License-Identifier: Apache-2.0
# Drills of builds that find another one's work, other inputs, or no room; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# killed_build DECK [key=value ...]: leaves an unfinished build in $store.building.
killed_build() {
  ESPALIER_TEST_KILL=corpus_record:1:2 build 2 "$@"
  must_die
}

# refuse TEXT ... -- BUILD ARGUMENTS: ends with 3, one message with these texts, and the unfinished
# build is still there.
refuse() {
  local texts=() text
  while [ "$1" != -- ]; do texts+=("$1"); shift; done
  shift
  build "$@"
  must_exit 3
  must_have_one_error
  for text in "${texts[@]}"; do must_say "$text"; done
}

# A change of the deck: said, discarded only when asked, and then the bytes are the new deck's.
other_deck() { # TEXT KEY=VALUE
  local found
  trial "another deck: $2"
  killed_build "$plain"
  found=$(finished_pieces)
  refuse 'holds an unfinished build of something else' "$1" -- 2 "$plain" "$2"
  [ "$(finished_pieces)" -eq "$found" ] || fault "the unfinished build was changed"
  build 2 "$plain" --overwrite "$2"
  must_go_on 0
  must_exit 0
  mv "$store" "$run.other"
  build 0 "$plain" "$2"
  mv "$run.other" "$run/other"
  diff -r "$run/other" "$store" >/dev/null || fault "discarding does not give the new deck's bytes"
  ! diff -r "$work/plain.store" "$store" >/dev/null || fault "the change changes nothing"
  conclude
}

# A change of the inputs, by COMMAND in their folder.
other_inputs() { # TEXT COMMAND
  local inputs
  trial "other inputs: $2"
  inputs=$run/inputs
  cp -rp "$work/inputs" "$inputs"
  make_deck "$inputs" >"$run/deck.toml"
  killed_build "$run/deck.toml"
  (cd "$inputs" && eval "$2")
  refuse 'What differs:' "$1" -- 2 "$run/deck.toml"
  build 2 "$run/deck.toml" --overwrite
  must_exit 0
  conclude
}

drill_changes() {
  other_deck 'the deck said min_characters = 20, and says min_characters = 45' \
    clean.min_characters=45
  other_deck 'the tokenizer was huggingface:.*, and is huggingface:' tokenizer.special_tokens=as_tokens
  other_deck 'the deck said seed = 3, and says seed = 4' build.seed=4
  other_inputs 'prose/1.txt has changed' 'echo more >>prose/1.txt'
  other_inputs 'prose/1.txt has changed' 'touch prose/1.txt'
  other_inputs 'prose/9.txt is new' 'cp prose/1.txt prose/9.txt'
  other_inputs 'pages/11.html is gone' 'rm pages/11.html'
  changed_while_read
  there_already
  in_the_way
  two_builds
}

changed_while_read() {
  local inputs change
  for change in 'echo more >>' 'touch'; do
    trial "a file that changes while it is read: $change"
    inputs=$run/inputs
    cp -rp "$work/inputs" "$inputs"
    make_deck "$inputs" >"$run/deck.toml"
    ESPALIER_TEST_PAUSE=corpus_piece:30 build 2 "$run/deck.toml" &
    job=$!
    await test -e "$store.building/work/plan.json" || fault "it does not begin"
    eval "$change $inputs/lines.txt"
    wait $job || true
    # The job's variables were its own.
    [ ! -e "$store" ] || fault "a store was made"
    must_say '^error: .*(has changed since it was listed|inputs changed while they were read)'
    must_say 'build again'
    refuse 'lines.txt has changed' -- 2 "$run/deck.toml"
    build 2 "$run/deck.toml" --overwrite
    must_exit 0
    conclude
  done
}

there_already() {
  trial "a store that is there"
  cp -r "$work/plain.store" "$store"
  refuse 'a token store is there already.*--overwrite' -- 2 "$near"
  diff -r "$work/plain.store" "$store" >/dev/null || fault "it was changed"
  build 2 "$near" --overwrite
  must_equal "$work/near.store"
  conclude
}

in_the_way() {
  local place
  trial "a folder with other files"
  mkdir "$store" && echo mine >"$store/letter"
  refuse 'a folder with other files' -- 1 "$near"
  refuse 'a folder with other files' -- 1 "$near" --overwrite
  rm -r "$store"
  for place in building replaced; do
    mkdir "$store.$place" && echo mine >"$store.$place/letter"
    refuse 'is in the way of the build' -- 1 "$near" --overwrite
    [ "$(cat "$store.$place/letter")" = mine ] || fault "it was changed"
    rm -r "$store.$place"
  done
  mkdir "$store" # an empty one is no hindrance
  build 2 "$near"
  must_equal "$work/near.store"
  echo text >"$run/file"
  build 0 "$near" "build.output=$run/file"
  must_exit 3
  must_say 'is no folder'
  conclude
}

two_builds() {
  local said
  trial "two builds at once"
  ESPALIER_TEST_PAUSE=corpus_piece:40 build 2 "$near" &
  job=$!
  await test -s "$store.building/.lock" || fault "it does not begin"
  said=$run.said
  run=$run.second
  refuse 'in use by process [0-9]+ on .*; wait for it or end it, or choose another' -- 2 "$near"
  refuse 'in use by process' -- 0 "$near" --overwrite
  run=${run%.second}
  kill -0 $job 2>/dev/null || fault "the first is over"
  wait $job || true
  grep -q 'built by 2 processes' "$said" || fault "the first failed"
  code=0
  must_equal "$work/near.store"
  conclude
}

# Builds that are wrong on purpose: each must be noticed by what the other drills look at.
drill_controls() {
  trial "control: pieces by the number of ranks"
  ESPALIER_TEST_BREAK=corpus_pieces build 2 "$near"
  must_exit 0
  ! diff -rq "$work/near.store" "$store" >/dev/null || fault "not noticed"
  conclude
  trial "control: a record before its shards"
  ESPALIER_TEST_BREAK=corpus_record ESPALIER_TEST_KILL=corpus_shards:1:2 build 2 "$plain"
  must_die
  build 2 "$plain"
  [ "$code" -ne 0 ] || ! diff -rq "$work/plain.store" "$store" >/dev/null || fault "not noticed"
  conclude
  trial "control: an unfinished build of another deck is gone on with"
  killed_build "$plain"
  ESPALIER_TEST_BREAK=corpus_plan build 2 "$plain" build.seed=4
  [ "$code" -ne 3 ] || fault "refused all the same"
  conclude
  trial "control: what was half written stays"
  ESPALIER_TEST_KILL=corpus_shards:1:2 build 2 "$plain"
  must_die
  ESPALIER_TEST_BREAK=corpus_partial build 2 "$plain"
  ! diff -rq "$work/plain.store" "$store" >/dev/null || fault "not noticed"
  conclude
}
