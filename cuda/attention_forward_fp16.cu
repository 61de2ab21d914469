// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_forward.cuh"

namespace espalier::cuda {

template bool can_run<fp16>(const AttentionForward<fp16>&);
template void attention_forward<fp16>(const AttentionForward<fp16>&, Stream);

}  // namespace espalier::cuda
