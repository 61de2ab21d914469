// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_key_gradients_launch.cuh"

namespace espalier::cuda::attention {

template void run_key_gradients<bf16>(const AttentionBackward<bf16>&, const BackwardScratch&,
                                      Stream);

}  // namespace espalier::cuda::attention
