# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES gemm.cpp profile.cpp)
