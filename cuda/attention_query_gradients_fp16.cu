// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention_query_gradients.cuh"

namespace espalier::cuda::attention {

template void run_query_gradients<fp16>(const AttentionBackward<fp16>&, const BackwardScratch&,
                                        Stream);

}  // namespace espalier::cuda::attention
