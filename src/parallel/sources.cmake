# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES gradient_reducer.cpp ordered_reduction.cpp tensor_parallel.cpp)
