// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_forward.cuh"

namespace espalier::cuda {

template bool can_run<bf16>(const AttentionForward<bf16>&);
template void attention_forward<bf16>(const AttentionForward<bf16>&, Stream);

}  // namespace espalier::cuda
