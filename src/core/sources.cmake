# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES log.cpp test_hooks.cpp units.cpp)
