# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES linear.cpp dropout.cpp residual.cpp norm.cpp activation.cpp rope.cpp
    attention.cpp attention_backward.cpp attention_cached.cpp embedding.cpp cross_entropy.cpp
    sharded_cross_entropy.cpp)
