# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES exec.cpp gemm_host.cpp profile.cpp sums.cpp zeroed_ranges.cpp)
set(ESPALIER_DEVICE_SOURCES exec.cpp gemm_device.cpp profile.cpp sums.cpp zeroed_ranges.cpp)
