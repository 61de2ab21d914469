# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES checksum.cpp durable_file.cpp exact_sum.cpp folder_lock.cpp log.cpp test_hooks.cpp units.cpp)
