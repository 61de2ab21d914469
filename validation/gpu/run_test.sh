#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh without a GPU: the plan, the table where nothing can be measured, where the build fails, and
# with stand-ins for the programs whose numbers are known.
# Usage: run_test.sh RUN_SH FOLDER
set -u
run=$1 work=$2 failed=0
rm -rf "$work" && mkdir -p "$work/none" "$work/bin" || exit 2
fault() {
  echo "FAILED: $*"
  failed=1
}
# ends CODE FILE COMMAND ...
ends() {
  wanted=$1 file=$2
  shift 2
  "$@" >"$file" 2>"$file.err"
  code=$?
  [ $code -eq "$wanted" ] || fault "code $code, wanted $wanted: $(cat "$file" "$file.err")"
}
says() { # FILE PATTERN ...
  file=$1
  shift
  for pattern in "$@"; do
    grep -qE -- "$pattern" "$file" || fault "no line like '$pattern' in: $(cat "$file")"
  done
}

# Neither environment nor machine decide: no GPU is what a failing nvidia-smi says.
unset Kokkos_ROOT KOKKOS_SOURCE LLMC CUDA_HOME JOBS BUDGET
printf '#!/bin/sh\nexit 9\n' >"$work/none/nvidia-smi"
chmod +x "$work/none/nvidia-smi"
plain=$PATH
PATH=$work/none:$plain

ends 0 "$work/dry" "$run" --dry-run --folder "$work/plan"
says "$work/dry" 'no GPU: nvidia-smi lists none' '^kokkos-build ' '^build .*espalier-spmd' \
  '^build-tests ' '^tests .*-L gpu' '^kernels .*bench kernels' '^step-gpt2-1558m ' '^step-llama-1b ' \
  '^llmc-gpt2-124m ' '^torch-gpt2-1558m ' '^sanitizer '
[ ! -e "$work/plan" ] || fault "a dry run made a folder"
ends 2 "$work/wrong" "$run" --fast

ends 77 "$work/absent" "$run" --folder "$work/absent-run"
lines=$(grep -c 'not measured .*no GPU: nvidia-smi lists none' "$work/absent")
if [ "$lines" -ne "$(grep -c 'not measured' "$work/absent")" ] || [ "$lines" -lt 30 ]; then
  fault "$lines lines say that nothing was measured: $(cat "$work/absent")"
fi

# Stand-ins for a machine with a GPU.
stand_in() { # NAME, text on standard input
  cat >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}
stand_in nvidia-smi <<'END'
#!/bin/sh
echo "Some GPU, 9.0, 600.1"
END
for program in nvcc compute-sanitizer; do
  printf '#!/bin/sh\nexit 0\n' | stand_in $program
done
stand_in cmake <<'END'
#!/bin/sh
echo "no compiler today"
exit 1
END
PATH=$work/bin:$plain
export Kokkos_ROOT="$work"
ends 1 "$work/unbuilt" "$run" --folder "$work/unbuilt-run"
says "$work/unbuilt" '^espalier on Some GPU' 'not measured .*not built: configure ended with code 1' \
  '^gpt2-124m: MFU of 989 TFLOP/s .*not measured %  *>= 50 '

# A build that works, and programs that print what the real ones would.
stand_in cmake <<'END'
#!/bin/sh
[ "$1" = --preset ] || exit 0
mkdir -p "$4/bin" "$4/validation/bin"
cp "$(dirname "$0")/spmd" "$4/bin/espalier-spmd"
printf '#!/bin/sh\nexit 0\n' >"$4/validation/bin/kernel_one"
chmod +x "$4/validation/bin/kernel_one"
END
stand_in spmd <<'END'
#!/bin/sh
case "$*" in
  *kernels*)
    while [ "$1" != --out ]; do shift; done
    for line in copy_rate:4000.5 gemm_rate:700 attention_forward:400.25 attention_ratio:0.65 \
      memory_bound_least:91; do
      echo "{\"about\":\"\",\"kind\":\"summary\",\"name\":\"${line%:*}\",\"unit\":\"\",\"value\":${line#*:}}"
    done >"$2"
    ;;
  *llama*) exit 3 ;;
  *)
    echo "tokens/s     500000"
    echo "MFU          51.50 % of 989000 GFLOP/s a rank (monitor.peak_gflops)"
    echo "share        70.1 % of the gemm peak"
    echo "idle         1.25 % of the step lies between"
    ;;
esac
END
stand_in mpiexec <<'END'
#!/bin/sh
shift 2
exec "$@"
END
stand_in ctest <<'END'
#!/bin/sh
echo "98% tests passed, ${FAILING:-0} tests failed out of 57"
[ "${FAILING:-0}" -eq 0 ]
END
mkdir -p "$work/llmc"
cat >"$work/llmc/train_gpt2cu" <<'END'
#!/bin/sh
[ "$(wc -c <"$2")" -eq 2098176 ] || exit 1
echo "step    1/20 | loss 11.0 (+nanz)| norm 9.0 (+nanz)| lr 1.00e-04 | 900.00 ms | 10.0% bf16 MFU | 1000 tok/s"
echo "step   20/20 | loss 10.0 (+nanz)| norm 9.0 (+nanz)| lr 1.00e-04 | 99.00 ms | 49.0% bf16 MFU | 250000 tok/s"
END
chmod +x "$work/llmc/train_gpt2cu"
stand_in torch <<'END'
#!/bin/sh
echo "tokens/s 625000"
END
export MPIEXEC=mpiexec LLMC="$work/llmc" PYTHON=torch
ends 0 "$work/whole" "$run" --folder "$work/whole-run"
says "$work/whole" '^GPU tests that fail \(of 57, 0 skipped\)  *0  *== 0  *reached$' \
  '^copy on the device  *4000 GB/s  *-' '^attention forward.* 400.2 TFLOP/s  *>= 330  *reached$' \
  '^attention backward.* 0.65  *>= 0.7  *NOT reached$' '^slowest.* 91 %  *>= 85  *reached$' \
  '^gpt2-124m: MFU of.* 51.50 %  *>= 50  *reached$' '^gpt2-1558m: MFU of.*>= 55  *NOT reached$' \
  '^gpt2-124m: idle  *1.25 %  *< 3  *reached$' '^llama-1b: MFU.*not measured.*step-llama-1b ended with code 3' \
  '^gpt2-124m: espalier / llm.c  *2.000  *> 1  *reached$' '^gpt2-124m: MFU as llm.c.* 49.0 %' \
  '^gpt2-1558m: espalier / PyTorch  *0.800  *> 1  *NOT reached$' \
  '^kernel tests with faults.*of 1, 0 late  *0  *== 0  *reached$'
export FAILING=2
ends 1 "$work/failing" "$run" --folder "$work/failing-run"
says "$work/failing" '^GPU tests that fail.* 2  *== 0  *NOT reached$'
[ $failed -eq 0 ] && echo "run.sh plans, measures and judges as it must"
exit $failed
