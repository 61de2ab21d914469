#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: builds the program, runs its GPU tests, measures the goals of
# docs/gpu.md and prints one table, within 10 minutes on 16 cores.
#
# Usage: validation/gpu/run.sh [--dry-run] [--folder FOLDER]
#   --dry-run   say what would be done, with the time each part may take, and do nothing
#   --folder    for the build, the logs and the table (default: build/gpu-run)
# Needed: CUDA 12 or 13 (nvcc on PATH or in /usr/local/cuda), g++, cmake, an MPI, parallel HDF5 and
# the libraries of scripts/setup.sh. Of the environment:
#   Kokkos_ROOT     an installed Kokkos with CUDA; else one is built from
#   KOKKOS_SOURCE   its source folder; else release 4.7.01 is fetched from GitHub
#   LLMC            a folder of llm.c with train_gpt2cu in it, to compare with
#   PYTHON          a Python whose torch has CUDA, to compare with (default: python3)
#   JOBS            compile jobs (default: one a processor)
#   BUDGET          seconds for all parts together (default: 600)
# and the names in Makefile.inc (MPICC, MPICXX, MPIEXEC, H5PCC, ...).
# Exit code: 0 all tests passed, 1 a test or the build failed, 2 wrong use, 77 no GPU here.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
work=$root/build/gpu-run
dry=0
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --folder)
      [ $# -ge 2 ] || { echo "run.sh: --folder needs a folder" >&2; exit 2; }
      work=$2
      shift
      ;;
    *) echo "run.sh: unknown argument '$1'; see the head of this file" >&2; exit 2 ;;
  esac
  shift
done
cd "$root" || exit 2
budget=${BUDGET:-600}
python=${PYTHON:-python3}
kokkos_release=4.7.01
begin=$(date +%s)
failed=0

# --- What is said and kept -------------------------------------------------------------------------
note() { echo "run.sh: $*" >&2; }

# Whether parts that need the program go on.
may_run() { [ -z "$obstacle" ] || [ $dry -eq 1 ]; }

# part NAME SECONDS COMMAND ...: runs it with its own time limit inside the budget; output in
# NAME.log. Sets `why` where it failed.
part() {
  name=$1 limit=$2
  shift 2
  if [ $dry -eq 1 ]; then
    printf '%-22s at most %4d s  %s\n' "$name" "$limit" "$*"
    return 0
  fi
  left=$((budget - ($(date +%s) - begin)))
  [ "$left" -ge "$limit" ] || limit=$left
  if [ "$limit" -le 0 ]; then
    why="the $budget s of BUDGET were spent before" code=124
    return 1
  fi
  note "$name (at most $limit s): $*"
  from=$(date +%s)
  timeout -k 10 "$limit" "$@" >"$work/$name.log" 2>&1 </dev/null
  code=$?
  note "$name took $(($(date +%s) - from)) s"
  case $code in
    0) return 0 ;;
    77) why=$(tail -n 1 "$work/$name.log") ;;
    124 | 137) why="$name did not end within $limit s: $work/$name.log" ;;
    *) why="$name ended with code $code: $work/$name.log" ;;
  esac
  note "$why"
  return 1
}

# row NAME VALUE UNIT GOAL WHY: one line of the table. GOAL is an operator and a number, or -. An
# empty VALUE is "not measured", because of WHY.
row() {
  awk -v name="$1" -v value="$2" -v unit="$3" -v goal="$4" \
    -v why="${5:-its log holds no such number}" 'BEGIN {
    n = split(goal, g, " ")
    said = ""
    if (value == "") {
      value = "not measured"
      said = why
    } else if (n == 2) {
      is_reached = value + 0 == g[2] + 0
      if (g[1] == ">=") is_reached = value + 0 >= g[2] + 0
      if (g[1] == ">") is_reached = value + 0 > g[2] + 0
      if (g[1] == "<") is_reached = value + 0 < g[2] + 0
      said = is_reached ? "reached" : "NOT reached"
    }
    printf("%-48s %14s %-8s %-9s %s\n", name, value, unit, n == 2 ? goal : "-", said)
  }' >>"$work/table.txt"
}

# field FILE PATTERN: the first number after PATTERN in the last line that begins with it.
field() {
  [ -f "$1" ] || return 0
  sed -n "s|^$2[^0-9-]*\([0-9.]*\).*|\1|p" "$1" | tail -n 1
}

# summary NAME: a summary of bench kernels.
summary() {
  [ -f "$work/kernels.jsonl" ] || return 0
  grep '"kind":"summary"' "$work/kernels.jsonl" | grep "\"name\":\"$1\"" |
    sed -n 's/.*"value":\([-+0-9.eE]*\).*/\1/p' | tail -n 1 | awk '{ printf "%.4g\n", $1 }'
}

ratio() { # A B
  [ -n "$1" ] && [ -n "$2" ] && awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.3f\n", a / b }'
}

# --- The machine -----------------------------------------------------------------------------------
[ -z "${CUDA_HOME:-}" ] && [ -x /usr/local/cuda/bin/nvcc ] && CUDA_HOME=/usr/local/cuda
[ -n "${CUDA_HOME:-}" ] && PATH=$PATH:$CUDA_HOME/bin && export CUDA_HOME PATH
gpu=$(nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null |
  head -n 1)
architecture=$(echo "$gpu" | sed -n 's/.*, *\([0-9]*\)\.\([0-9]\),.*/\1\2/p')
missing=
for program in nvcc g++ cmake timeout; do
  command -v $program >/dev/null 2>&1 || missing="$missing $program"
done
obstacle=
[ -z "$missing" ] || obstacle="not on this machine:$missing"
[ -n "$architecture" ] || obstacle="no GPU: nvidia-smi lists none"
export CUDA_ARCHITECTURES="${architecture:-90}"
# Debian's names are the default of Makefile.inc; elsewhere the plain ones.
if ! command -v mpicxx.mpich >/dev/null 2>&1; then
  export MPICC="${MPICC:-mpicc}" MPICXX="${MPICXX:-mpicxx}" MPIEXEC="${MPIEXEC:-mpiexec}" \
    H5PCC="${H5PCC:-h5pcc}"
fi
# shellcheck source=scripts/site.sh
. scripts/site.sh
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
generator="Unix Makefiles"
command -v ninja >/dev/null 2>&1 && generator=Ninja
kokkos_architecture=HOPPER90
[ "$CUDA_ARCHITECTURES" -ge 90 ] || kokkos_architecture=AMPERE80

# --- The build -------------------------------------------------------------------------------------
# nvcc 13 knows no sm_70, the wrapper's own default; and two calls of Kokkos 4.6 have another form
# since CUDA 13. Releases from 4.7 on have neither line as it is looked for here.
mend_kokkos() { # SOURCE
  sed -i "s/^default_arch=.*/default_arch=\"sm_$CUDA_ARCHITECTURES\"/" "$1/bin/nvcc_wrapper"
  major=$(nvcc --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  [ "${major:-0}" -ge 13 ] || return 0
  file=$1/core/src/Cuda/Kokkos_Cuda_Instance.hpp
  grep -q 'CUDART_VERSION >= 13000' "$file" && return 0
  host=cudaMemLocationTypeHost device=cudaMemLocationTypeDevice
  place="cudaMemLocation{dstDevice < 0 ? $host : $device, dstDevice < 0 ? 0 : dstDevice}"
  sed -i -e 's/\(cudaGraphAddDependencies(graph, from, to, \)\(numDependencies)\)/\1nullptr, \2/' \
    -e "s/\(cudaMemPrefetchAsync(devPtr, count, \)dstDevice\(, m_stream)\)/\1$place, 0\2/" "$file"
}

build_kokkos() {
  if [ -n "${Kokkos_ROOT:-}" ]; then
    [ $dry -eq 0 ] || echo "kokkos                 taken from $Kokkos_ROOT"
    return 0
  fi
  source=$work/kokkos-source
  export Kokkos_ROOT="$work/kokkos"
  [ ! -f "$work/kokkos/include/Kokkos_Core.hpp" ] || return 0
  if [ -n "${KOKKOS_SOURCE:-}" ]; then
    part kokkos-source 20 cp -r "$KOKKOS_SOURCE" "$source" || return 1
  else
    part kokkos-source 60 git clone -q --depth 1 --branch $kokkos_release \
      https://github.com/kokkos/kokkos.git "$source" || return 1
  fi
  [ $dry -eq 1 ] || mend_kokkos "$source" || return 1
  export NVCC_WRAPPER_DEFAULT_ARCH="sm_$CUDA_ARCHITECTURES"
  part kokkos-configure 60 cmake -S "$source" -B "$work/kokkos-build" -G "$generator" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$source/bin/nvcc_wrapper" \
    -DCMAKE_CXX_STANDARD=17 -DKokkos_ENABLE_CUDA=ON -DKokkos_ENABLE_SERIAL=ON \
    -DKokkos_ARCH_$kokkos_architecture=ON -DCMAKE_INSTALL_PREFIX="$work/kokkos" || return 1
  part kokkos-build 120 cmake --build "$work/kokkos-build" -j "$jobs" --target install
}

# Programs of tests with the label gpu: CTest's files name a test's command, then its labels.
gpu_programs() {
  find "$work/build/validation" -name CTestTestfile.cmake -exec cat {} + 2>/dev/null | awk '
    /^add_test\(/ {
      name = $1
      sub(/^add_test\(/, "", name)
      program[name] = ""
      if (match($0, /\/validation\/bin\/[A-Za-z0-9_-]+/))
        program[name] = substr($0, RSTART + 16, RLENGTH - 16)
    }
    /^set_tests_properties\(/ && /LABELS "([^"]*;)?gpu[";]/ {
      name = $1
      sub(/^set_tests_properties\(/, "", name)
      if (program[name] != "" && !seen[program[name]]++) print program[name]
    }'
}

build_program() {
  part configure 60 cmake --preset cuda -B "$work/build" -G "$generator" || return 1
  part build 330 cmake --build "$work/build" -j "$jobs" --target espalier espalier-spmd
}

# One test that does not compile must not cost the others: CTest counts it as failed.
build_tests() {
  go_on=-k
  [ "$generator" != Ninja ] || go_on="-k 0"
  # shellcheck disable=SC2046,SC2086  # lists of words
  part build-tests 240 cmake --build "$work/build" -j "$jobs" --target $(gpu_programs) -- $go_on
}

# --- Tests -----------------------------------------------------------------------------------------
run_tests() {
  goal="== 0" why=$obstacle
  if ! may_run; then
    row "GPU tests that fail" "" "" "$goal" "$why"
    return
  fi
  build_tests || failed=1
  part tests 150 ctest --test-dir "$work/build" -L gpu -j 4 --output-on-failure || failed=1
  [ $dry -eq 0 ] || return 0
  bad=$(sed -n 's/.*, \([0-9]*\) tests failed out of.*/\1/p' "$work/tests.log" 2>/dev/null)
  all=$(sed -n 's/.* tests failed out of \([0-9]*\).*/\1/p' "$work/tests.log" 2>/dev/null)
  skipped=$(grep -c '(Skipped)$' "$work/tests.log" 2>/dev/null)
  [ -n "$bad" ] || failed=1
  row "GPU tests that fail (of ${all:-?}, ${skipped:-0} skipped)" "$bad" "" "$goal" "$why"
}

run_sanitizer() {
  label="kernel tests with faults (sanitizer)"
  why=$obstacle
  if [ -z "$why" ] && ! command -v compute-sanitizer >/dev/null 2>&1; then
    why="compute-sanitizer is not on PATH"
  fi
  if [ -n "$why" ] && [ $dry -eq 0 ]; then
    row "$label" "" "" "== 0" "$why"
    return
  fi
  if [ $dry -eq 1 ]; then
    part sanitizer 30 compute-sanitizer --error-exitcode 9 "each kernel_* program"
    return
  fi
  bad=0 late=0 all=0
  for program in "$work"/build/validation/bin/kernel_*; do
    [ -x "$program" ] || continue
    all=$((all + 1))
    part "sanitizer-$(basename "$program")" 30 compute-sanitizer --error-exitcode 9 "$program" &&
      continue
    case $code in
      124 | 137) late=$((late + 1)) ;;
      *) bad=$((bad + 1)) ;;
    esac
  done
  if [ $all -eq $late ]; then
    row "$label" "" "" "== 0" "${why:-no kernel_* program was built}"
    return
  fi
  row "$label, of $all, $late late" $bad "" "== 0"
  [ $bad -eq 0 ] || failed=1
}

# --- Measurements ----------------------------------------------------------------------------------
spmd() { # NAME SECONDS ARGUMENT ...
  name=$1 limit=$2
  shift 2
  part "$name" "$limit" "$MPIEXEC" "$MPIEXEC_NUMPROC_FLAG" 1 "$work/build/bin/espalier-spmd" "$@"
}

bench_kernels() {
  why=$obstacle
  if may_run; then
    spmd kernels 90 bench kernels --seconds 0.1 --out "$work/kernels.jsonl"
  fi
  [ $dry -eq 0 ] || return 0
  row "copy on the device" "$(summary copy_rate)" GB/s - "$why"
  row "product 8192 x 8192 x 8192, bf16" "$(summary gemm_rate)" TFLOP/s - "$why"
  row "attention forward, d 128, length 4096 (aim 450)" "$(summary attention_forward)" TFLOP/s \
    ">= 330" "$why"
  row "attention backward / forward rate" "$(summary attention_ratio)" "" ">= 0.7" "$why"
  row "slowest memory-bound kernel, share of the copy" "$(summary memory_bound_least)" % \
    ">= 85" "$why"
}

# bench_model NAME GOAL: the deck of that name in inputs/bench, without and with graphs.
bench_model() {
  model=$1 goal=$2 why=$obstacle
  if may_run; then
    spmd "step-$model" 60 bench step "inputs/bench/$model.toml" --steps 10 --warmup 3
  fi
  ours=$(field "$work/step-$model.log" "tokens/s")
  if [ $dry -eq 0 ]; then
    row "$model: tokens a second" "$ours" "" - "$why"
    row "$model: MFU of 989 TFLOP/s" "$(field "$work/step-$model.log" MFU)" % ">= $goal" "$why"
    row "$model: share of the product rate" "$(field "$work/step-$model.log" share)" % - "$why"
    row "$model: idle" "$(field "$work/step-$model.log" idle)" % "< 3" "$why"
  fi
  why=$obstacle
  if may_run; then
    spmd "graphs-$model" 45 bench step "inputs/bench/$model.toml" --steps 10 --warmup 3 \
      --set numerics.graphs=true
  fi
  [ $dry -eq 1 ] ||
    row "$model: tokens a second with graphs" "$(field "$work/graphs-$model.log" "tokens/s")" "" - "$why"
}

# Random tokens as llm.c reads them: a header of 256 integers (number of the format, version,
# count), then 16-bit ids, here below 2^15.
write_tokens() {
  {
    printf '\210\330\064\001\001\000\000\000\000\000\020\000'
    head -c 1012 /dev/zero
    head -c 2097152 /dev/urandom | tr '\200-\377' '\000-\177'
  } >"$work/tokens.bin"
}

# Four micro-batches a step, as the decks and torch_step.py.
compare_llmc() { # MODEL LAYERS BATCH
  model=$1 name=llmc-$1 why=$obstacle
  [ -n "$why" ] || [ -n "${LLMC:-}" ] || why="LLMC names no folder of llm.c"
  [ -n "$why" ] || [ -x "$LLMC/train_gpt2cu" ] || why="no $LLMC/train_gpt2cu; build it there"
  if [ -z "$why" ] || [ $dry -eq 1 ]; then
    [ $dry -eq 1 ] || write_tokens
    part "$name" 60 "${LLMC:-LLMC}/train_gpt2cu" -i "$work/tokens.bin" -j "$work/tokens.bin" \
      -e "d$2" -b "$3" -t 1024 -d "$(($3 * 4096))" -x 12 -v 1000 -m 1 -s 0 -h 0 -n 0 -l 0.0001
  fi
  [ $dry -eq 0 ] || return 0
  theirs=$(sed -n 's|.*\| *\([0-9]*\) tok/s.*|\1|p' "$work/$name.log" 2>/dev/null | tail -n 1)
  compare "$model" "llm.c" "$theirs"
  row "$model: MFU as llm.c prints it" \
    "$(sed -n 's/.*| *\([0-9.]*\)% bf16 MFU.*/\1/p' "$work/$name.log" 2>/dev/null | tail -n 1)" \
    % - "$why"
}

compare_torch() { # MODEL SECONDS WIDTH LAYERS HEADS BATCH
  model=$1 name=torch-$1 limit=$2 why=$obstacle
  shift 2
  if may_run; then
    part "$name" "$limit" "$python" validation/gpu/torch_step.py "$1" "$2" "$3" "$4" 1024 10
  fi
  [ $dry -eq 1 ] || compare "$model" PyTorch "$(field "$work/$name.log" "tokens/s")"
}

compare() { # MODEL OTHER TOKENS_A_SECOND; uses `why`
  ours=$(field "$work/step-$1.log" "tokens/s")
  row "$1: tokens a second of $2" "$3" "" - "$why"
  [ -z "$3" ] || [ -n "$ours" ] || why="the step of espalier was not measured"
  row "$1: espalier / $2" "$(ratio "$ours" "$3")" "" "> 1" "$why"
}

# --- All of it -------------------------------------------------------------------------------------
if [ $dry -eq 1 ]; then
  echo "GPU          ${gpu:-none here; $obstacle}"
  echo "architecture sm_$CUDA_ARCHITECTURES, $jobs compile jobs, $budget s for all parts together"
  echo "folder       $work"
  echo
else
  mkdir -p "$work" || exit 2
  rm -f "$work"/*.log "$work/table.txt" "$work/kernels.jsonl"
  : >"$work/table.txt" || exit 2
fi
no_gpu=0
[ -n "$architecture" ] || no_gpu=1
if may_run; then
  if ! build_kokkos || ! build_program; then
    obstacle="not built: $why"
    failed=1
  fi
fi
bench_kernels
bench_model gpt2-124m 50
bench_model gpt2-1558m 55
bench_model llama-1b 55
run_tests
compare_llmc gpt2-124m 12 64
compare_llmc gpt2-1558m 48 16
compare_torch gpt2-124m 90 768 12 12 64
compare_torch gpt2-1558m 150 1600 48 25 16
run_sanitizer
[ $dry -eq 0 ] || exit 0
{
  echo "espalier on ${gpu:-a machine without a GPU}, $(date -u +%Y-%m-%d), after $(($(date +%s) - begin)) s"
  printf '%-48s %14s %-8s %-9s %s\n' name value unit goal ""
  cat "$work/table.txt"
} >"$work/report.txt"
cat "$work/report.txt"
[ $no_gpu -eq 0 ] || exit 77
[ -z "$missing" ] || exit 1
exit $failed
