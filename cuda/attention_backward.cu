// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_backward.cuh"

namespace espalier::cuda {

template bool can_run<bf16>(const AttentionBackward<bf16>&);
template bool can_run<fp16>(const AttentionBackward<fp16>&);
template void attention_backward<bf16>(const AttentionBackward<bf16>&, Stream);
template void attention_backward<fp16>(const AttentionBackward<fp16>&, Stream);

}  // namespace espalier::cuda
