# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES parameter_store.cpp parameter_slots.cpp gradient_tree.cpp graphed_pass.cpp input_staging.cpp shards.cpp stage.cpp
    stage_forward.cpp stage_head.cpp stage_backward.cpp stage_weights.cpp pipeline.cpp data_parallel_blocks.cpp generator.cpp
    sampling.cpp)
