# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES exact_sum.cpp log.cpp test_hooks.cpp units.cpp)
