# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES adamw.cpp gradient_norm.cpp learning_rate.cpp loss_scale.cpp segment.cpp)
# A square root that may set errno is a branch, and the loop around it stays scalar.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/optim/adamw.cpp PROPERTIES
                            COMPILE_OPTIONS -fno-math-errno)
