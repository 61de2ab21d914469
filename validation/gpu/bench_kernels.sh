#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# espalier bench kernels runs through at its smallest sizes: every kernel has its line on standard
# output and in the file, with a positive finite rate. How fast they are is not asked.
# Usage: bench_kernels.sh PROGRAM HOST_PROGRAM   (- where there is no program for the host)
set -u
program=$1 host=$2 failed=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
fault() {
  echo "FAILED: $*"
  failed=1
}
if [ "${ESPALIER_NEEDS_GPU:-0}" = 1 ] && ! nvidia-smi -L >/dev/null 2>&1; then
  echo "skipped: no GPU that this process may use"
  exit 77
fi

# lines TYPE PATTERN ...: each PATTERN is a kernel with a rate.
lines() {
  type=$1
  shift
  file=$work/$type.jsonl
  "$program" bench kernels --scale tiny --seconds 0 --type "$type" --out "$file" >"$work/$type" 2>&1 || {
    cat "$work/$type"
    fault "bench kernels --type $type ended with code $?"
    return
  }
  cat "$work/$type"
  for pattern in "$@"; do
    grep '"kind":"kernel"' "$file" | grep -E "\"name\":\"[^\"]*$pattern" |
      grep -qE '"rate":[0-9.e+-]*[1-9]' || fault "$type: no kernel like '$pattern' with a rate"
    grep -qE -- "$pattern" "$work/$type" || fault "$type: standard output lacks '$pattern'"
  done
  for name in copy_rate gemm_rate attention_forward attention_ratio memory_bound_least; do
    grep -q "\"kind\":\"summary\",\"name\":\"$name\".*\"value\":[0-9]" "$file" ||
      fault "$type: no summary $name"
  done
}

products=
for model in gpt2-124m gpt2-1558m llama-1b; do
  for layer in qkv output up down vocabulary; do
    products="$products $model.$layer.forward $model.$layer.input.gradient $model.$layer.weight.gradient"
  done
done
attention=
for what in forward backward; do
  for dim in 64 96 128 256 128,.4.queries.a.key.head 64,.documents 128,.documents; do
    attention="$attention attention.$what,.head_dim.$dim"
  done
done
memory="layernorm.forward layernorm.with.residual layernorm.backward rmsnorm.forward
  rmsnorm.with.residual rmsnorm.backward rope gelu.and.bias.forward gelu.backward swiglu.forward
  swiglu.backward bias.gradient cross.entropy.and.gradient embedding.forward embedding.backward"
flat="adamw.with.fp32.masters sums.of.squares gradient.norm ordered.sum.of.2 ordered.sum.of.8
  conversion.from.fp32"
# shellcheck disable=SC2086  # lists of patterns
lines bf16 copy.of 32.x.32.x.32 "product,.then.bias" "weight.gradient,.then" $products $attention $memory $flat \
  adamw.rounded
# shellcheck disable=SC2086
lines fp16 copy.of $attention $memory $flat
portable=$(grep '"kind":"kernel"' "$work/bf16.jsonl" | grep -c '"portable_seconds":{')
[ "$portable" -ge 20 ] || fault "only $portable kernels have a portable form beside them"

"$program" bench kernels --scale tiny --out "$work/none/file" >"$work/log" 2>&1
code=$?
if [ $code -ne 4 ] || ! grep -q 'none/file: cannot be written' "$work/log"; then
  fault "a file that cannot be written gave code $code: $(cat "$work/log")"
fi
if [ "$host" != - ]; then
  "$host" bench kernels >"$work/log" 2>&1
  code=$?
  if [ $code -ne 3 ] || ! grep -q 'this build computes on the host' "$work/log"; then
    fault "the program for the host gave code $code: $(cat "$work/log")"
  fi
fi
exit $failed
