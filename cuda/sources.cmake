# SPDX-License-Identifier: Apache-2.0
# Every .cu file of this folder; one that is not listed stops the configure run.
set(ESPALIER_CUDA_SOURCES
    activation.cu
    attention_backward.cu
    attention_forward_bf16.cu
    attention_forward_fp16.cu
    attention_key_gradients_bf16.cu
    attention_key_gradients_fp16.cu
    attention_query_gradients_bf16.cu
    attention_query_gradients_fp16.cu
    bias.cu
    classifier.cu
    embedding.cu
    exact_sum.cu
    matmul.cu
    norm_backward.cu
    norm_forward.cu
    optimizer.cu
    pointwise.cu
    reduction.cu
    rope.cu)
