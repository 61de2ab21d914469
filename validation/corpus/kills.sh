# SPDX-License-Identifier: Apache-2.0
# Drills of builds that are killed, or fail on one rank; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# kill_at PHASE RANK NTH FROM TO DECK: killed on FROM ranks, goes on with TO (0: espalier alone).
kill_at() {
  local found
  trial "$6 killed at $1 on rank $2 of $4, visit $3; on with $5"
  ESPALIER_TEST_KILL=$1:$2:$3 build "$4" "$work/$6.toml"
  must_die
  [ ! -e "$store" ] || fault "it was whole already"
  found=$(finished_pieces)
  case $1 in # what was under way is not finished
    corpus_piece | corpus_shards | corpus_record) [ "$3" -eq 1 ] || [ "$found" -gt 0 ] ||
      fault "no piece was finished" ;;
  esac
  build "$5" "$work/$6.toml"
  case $1 in # in these the folder of the work is gone
    corpus_rename | corpus_exchange) must_say 'went on with an unfinished build' ;;
    *) must_go_on "$found" ;;
  esac
  must_equal "$work/$6.store"
  conclude
}

drill_kills() {
  local rank
  for rank in 0 1; do
    kill_at corpus_piece $rank 1 2 3 near
    kill_at corpus_piece $rank 4 2 0 plain
    kill_at corpus_shards $rank 3 2 1 plain
    kill_at corpus_shards $rank 2 2 4 near
    kill_at corpus_record $rank 3 2 1 near
    kill_at corpus_record $rank 2 3 2 plain
    kill_at corpus_final $rank 1 2 3 near
    kill_at corpus_final $rank 5 2 1 near
  done
  kill_at corpus_record 2 2 3 2 near
  kill_at corpus_pairs 0 1 2 1 near
  kill_at corpus_manifest 0 1 2 1 near
  kill_at corpus_manifest 0 1 1 2 plain
  kill_at corpus_rename 0 1 2 0 near
  kill_at corpus_exchange 0 1 2 3 plain
  kill_replacement corpus_rename
  kill_replacement corpus_exchange
  kill_at_once
}

# One of the stores is whole at every moment, and the new one gets its place.
kill_replacement() { # PHASE
  local place
  trial "a store that is being replaced, killed at $1"
  cp -r "$work/plain.store" "$store"
  ESPALIER_TEST_KILL=$1:0 build 2 "$near" --overwrite
  must_die
  place=$store
  [ "$1" = corpus_rename ] || place=$store.replaced
  diff -r "$work/plain.store" "$place" >/dev/null || fault "the old store is gone"
  verify 0 "$store.building"
  [ "$verdict" -eq 0 ] || fault "the new one is not whole: $(cat "$run.verify")"
  build 2 "$near" --overwrite
  must_equal "$work/near.store"
  conclude
}

# Before the plan is written there is nothing but folders and a lock.
kill_at_once() {
  trial "killed before the plan was written"
  mkdir -p "$store.building/work"
  : >"$store.building/.lock"
  echo half >"$store.building/work/plan.json.part"
  build 2 "$plain"
  must_equal "$work/plain.store"
  conclude
}

# Rank 0 says in the lock who it is; its brothers are the other ranks.
ranks_of_build() {
  local first
  first=$(sed -nE 's/^process ([0-9]+) on .*/\1/p' "$store.building/.lock" 2>/dev/null)
  [ -z "$first" ] || pgrep -P "$(ps -o ppid= -p "$first" | tr -d ' ')" 2>/dev/null
}

drill_random() { # SEED TRIALS
  local seed=${ESPALIER_DRILL_SEED:-$1} count=${ESPALIER_DRILL_TRIALS:-$2}
  local i deck kills after ranks killed=0 attempts=0 processes
  for ((i = 0; i < count; ++i)); do
    seed_draws $((seed + i))
    draw 2
    deck=near
    [ "$drawn" -eq 0 ] || deck=plain
    trial "seed $((seed + i)), $deck"
    for ((kills = 0; kills < 3; ++kills)); do
      draw 3; ranks=$((2 + drawn))
      draw 450; after=$drawn
      ESPALIER_TEST_PAUSE=corpus_piece:8 build $ranks "$work/$deck.toml" &
      job=$!
      if await test -s "$store.building/.lock"; then
        sleep "0.$(printf %03d "$after")"
        processes=$(ranks_of_build || true)
        draw 2
        [ "$drawn" -eq 0 ] || processes=$(tail -n 1 <<<"$processes")
        # shellcheck disable=SC2086
        [ -z "$processes" ] || kill -9 $processes 2>/dev/null || true
      fi
      wait $job || true
      attempts=$((attempts + 1)) name+=", $ranks ranks after $after ms"
      [ ! -e "$store" ] || break
      killed=$((killed + 1))
    done
    draw 4
    if [ ! -e "$store" ]; then build "$drawn" "$work/$deck.toml"; else code=0; fi
    must_equal "$work/$deck.store"
    conclude
  done
  echo "$killed of $attempts were killed before their end"
  [ "$count" -lt 4 ] || [ $killed -ge $((count / 4)) ] || { trial "random"; fault "too few died"; }
}

# The error of one rank ends all, soon: the others have most of their pieces still to read.
drill_fail() {
  local phase rank started
  for phase in corpus_piece corpus_shards corpus_record corpus_final; do
    for rank in 0 2; do
      trial "$phase fails on rank $rank"
      started=$(date +%s%3N)
      ESPALIER_TEST_FAIL=$phase:$rank:2 ESPALIER_TEST_PAUSE=corpus_piece:20 build 3 "$near"
      must_exit 4
      must_have_one_error
      must_say "failed at $phase on purpose"
      if [ $phase != corpus_final ]; then
        [ $(($(date +%s%3N) - started)) -lt 8000 ] || fault "it took long to end"
        [ "$(finished_pieces)" -lt 20 ] || fault "the others went on: $(finished_pieces) pieces"
      fi
      build 2 "$near"
      must_equal "$work/near.store"
      conclude
    done
  done
  for phase in corpus_pairs corpus_manifest corpus_rename corpus_exchange; do
    trial "$phase fails"
    ESPALIER_TEST_FAIL=$phase:0 build 2 "$near"
    must_exit 4
    must_have_one_error
    build 3 "$near"
    must_equal "$work/near.store"
    conclude
  done
}
