# SPDX-License-Identifier: Apache-2.0
set(_common linear.cpp dropout.cpp residual.cpp norm.cpp activation.cpp rope.cpp
    attention_cached.cpp embedding.cpp cross_entropy.cpp sharded_cross_entropy.cpp)
set(ESPALIER_SOURCES ${_common} attention.cpp attention_backward.cpp)
set(ESPALIER_DEVICE_SOURCES ${_common} attention_device.cpp attention_device_backward.cpp)
