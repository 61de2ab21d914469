# SPDX-License-Identifier: Apache-2.0
# Drills of runs that go on with another deck, from another place, or when there is nothing to go on
# with; sourced by drills.sh.
# shellcheck shell=bash disable=SC2154

# A whole run, to be copied by the trials of this file.
prepare_again() {
  run=$folder/prepared
  start $ranks "$run" "$deck" "${common[@]}" checkpoint.keep_last=100 || { cat "$run.log"; exit 1; }
}

trial_again() { # NAME
  trial "$1"
  cp -r "$folder/prepared" "$run"
}

checkpoints() { (cd "$run/checkpoints" && find . -type f -name '*.*' | sort | xargs sha256sum); }
must_keep_checkpoints() {
  [ "$(checkpoints)" = "$before" ] || fault "checkpoints changed: $(ls -A "$run/checkpoints")"
}

# Token hashes of steps, a line each: FOLDER FIRST LAST. That of a step is a sum over its sequences.
hashes() {
  results "$1" | sed -nE 's/^([0-9]+) .*"token_hash":"([0-9a-f]+)".*/\1 \2/p' |
    awk -v first="$2" -v last="$3" '$1 >= first && $1 <= last { print $2 }'
}
# The sum, modulo 2^64, of the hashes from the input.
add_up() {
  local sum=0 hash
  while read -r hash; do sum=$((sum + 0x$hash)); done
  printf '%016x\n' $sum
}

# The rest of the sequences in steps of another size: no gap, no repetition.
other_batch() { # SEQUENCES STEPS RANKS [key=value ...]
  local step first last ranks=$3
  trial_again "$1 sequences a step on $3 ranks ${*:4}"
  go "--resume=$run/$(step_folder 10)" "batch.global_batch_size=$1" "run.steps=$((10 + $2))" \
    "${@:4}"
  must_exit 0
  must_resume_at 10
  [ "$1" -eq 8 ] || must_say '^warning: .*batch.global_batch_size 8 -> .*ALTERS THE ARITHMETIC'
  for ((step = 0; step < 10; step += 2)); do # two steps of the undisturbed run
    first=$((10 + step * 8 / $1 + 1)) last=$((10 + (step + 2) * 8 / $1))
    [ "$(hashes "$run" $first $last | add_up)" = \
      "$(hashes "$work/one" $((11 + step)) $((12 + step)) | add_up)" ] ||
      fault "steps $first to $last have other tokens"
  done
  [ "$(hashes "$run" 1 $((10 + $2)) | wc -l)" -eq $((10 + $2)) ] ||
    fault "not all steps are recorded"
  conclude
}

other_value() { # KEY=VALUE
  trial_again "another value: $1"
  go "--resume=$run/$(step_folder 10)" "$1"
  must_exit 0
  must_resume_at 10
  must_say "^warning: changed since the checkpoint: ${1%%=*} .* -> ${1#*=}: ALTERS THE ARITHMETIC"
  conclude
}

other_model() { # KEY=VALUE TENSOR
  local before
  trial_again "another model: $1"
  before=$(checkpoints)
  go --resume "$1"
  must_exit 2
  must_have_one_error
  must_say "^  parameters/$2: "
  must_keep_checkpoints
  go --resume
  must_end_right
  conclude
}

# From a checkpoint that is not the newest; killed, and what it had left behind is not taken up.
older() { # [key=value ...]
  trial_again "from an older checkpoint, killed, $*"
  ESPALIER_TEST_KILL=save.begin:0 go "--resume=$run/$(step_folder 10)" "$@"
  [ "$code" -ne 0 ] || fault "it was not killed"
  must_resume_at 10
  go --resume "$@"
  must_resume_at 10
  if [ $# -eq 0 ]; then
    must_end_right
  else
    must_exit 0
    # The run that nobody killed, from the same checkpoint.
    go_aside "--resume=$folder/prepared/$(step_folder 10)" "$@"
    diff <(results "$run") <(results "$run.aside") >/dev/null &&
      cmp "$run/$(step_folder 20)/state.h5" "$run.aside/$(step_folder 20)/state.h5" ||
      fault "it differs from the run that was not killed"
  fi
  conclude
}

# go_aside WORD ...: a run in the folder $run.aside
go_aside() {
  code=0
  start $ranks "$run.aside" "$deck" "${common[@]}" "$@" || code=$?
  tail -n +1 "$run.aside.log" >"$run.said"
}

# From a place elsewhere: the new folder holds all of the history, the old one stays as it is.
elsewhere() { # NAME PATH STEP
  local before
  trial_again "into another folder, from $1"
  rm -r "$run/$(step_folder 20)"
  before=$(checkpoints)
  go_aside "--resume=$run/$2"
  must_keep_checkpoints
  must_resume_at "$3"
  run=$run.aside must_end_right
  conclude
}

# The newest two are damaged: their steps are done, and saved, once more.
save_again() { # PHASE
  trial_again "killed at $1 when step 15 is saved again"
  : >"$run/$(step_folder 15)/manifest.json"
  : >"$run/$(step_folder 20)/manifest.json"
  ESPALIER_TEST_KILL=$1:0 go --resume checkpoint.on_damage=previous
  [ "$code" -ne 0 ] || fault "it was not killed"
  must_resume_at 10
  go --resume checkpoint.on_damage=previous
  must_end_right
  conclude
}

drill_again() {
  local before phase
  prepare_again
  trial_again "finished already"
  before=$(checkpoints)
  go --resume
  must_exit 0
  must_resume_at 20
  must_say '^step 20 is the last one already'
  must_keep_checkpoints
  must_end_right
  conclude
  trial_again "fewer steps than the checkpoint has"
  before=$(checkpoints)
  go --resume run.steps=15
  must_exit 2
  must_say 'is of step 20, but run.steps = 15; raise run.steps'
  must_keep_checkpoints
  go --resume
  must_end_right
  conclude
  trial "finished, without a checkpoint"
  go checkpoint.interval=0 checkpoint.save_final=true
  must_exit 0
  before=$(sha256sum "$run/model.h5")
  go --resume checkpoint.interval=0 checkpoint.save_final=true
  must_exit 3
  must_say 'is finished and has no checkpoint to go on from'
  [ "$(sha256sum "$run/model.h5")" = "$before" ] || fault "the model was replaced"
  conclude
  other_model model.hidden_size=32 layers.0.attention.qkv.weight
  other_model model.num_layers=3 layers.2.attention.qkv.weight
  other_value run.seed=5
  other_value optimizer.learning_rate=0.02
  other_batch 16 5 2
  other_batch 4 20 2
  other_batch 8 10 4
  other_batch 16 5 1
  other_batch 4 20 2 grid.pipeline_parallel=2
  older
  older optimizer.learning_rate=0.02
  for phase in save.begin save.rename save.latest save.retention; do save_again $phase; done
  elsewhere "a checkpoint" "$(step_folder 10)" 10
  elsewhere "a checkpoint" "$(step_folder 10)/" 10
  elsewhere "a run" "" 15
  nothing_there
}

# The first of many jobs that all say --resume.
nothing_there() {
  trial "nothing to go on with"
  go --resume
  must_resume_at 0
  must_end_right
  conclude
  trial "a checkpoint that does not exist"
  go "--resume=$run/$(step_folder 10)"
  must_exit 4
  must_have_one_error
  must_say '^error: .*step-0000000010'
  conclude
}

# What the comparison is worth: it notices a run that went on from a sound checkpoint of another
# run. (controls.sh leaves out each thing that a resume brings back.)
drill_control() {
  local key
  for key in run.seed=2 optimizer.learning_rate=0.011 model.init_std=0.021; do
    trial "control: the checkpoint of a run with $key"
    ESPALIER_TEST_KILL=save.retention:0:2 go checkpoint.mode=synchronous "$key"
    is_good 10 && fault "the checkpoint is the same"
    go --resume
    must_exit 0
    must_resume_at 10
    if judge_end "$name" "$work/one" "$run" $code >"$run.verdict"; then fault "not noticed"; fi
    grep -q '^DIFFERENT' "$run.verdict" || fault "$(cat "$run.verdict")"
    # The checkpoint alone shows it as well.
    cp "$work/one/metrics.jsonl" "$run/metrics.jsonl"
    if judge_end "$name" "$work/one" "$run" $code >"$run.verdict"; then fault "not noticed"; fi
    grep -q '^DIFFERENT.*: the last checkpoint' "$run.verdict" || fault "$(cat "$run.verdict")"
    conclude
  done
}
