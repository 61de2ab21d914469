# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES log.cpp units.cpp)
