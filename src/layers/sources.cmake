# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES linear.cpp norm.cpp activation.cpp rope.cpp attention.cpp attention_backward.cpp
    attention_cached.cpp embedding.cpp cross_entropy.cpp)
