# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES block_reducer.cpp gradient_reducer.cpp ordered_reduction.cpp
    parameter_gather.cpp rank_sum.cpp slice_exchange.cpp tensor_parallel.cpp)
