# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES parameter_store.cpp gradient_tree.cpp stage.cpp stage_forward.cpp
    stage_backward.cpp generator.cpp sampling.cpp)
