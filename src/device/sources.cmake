# SPDX-License-Identifier: Apache-2.0
# The host's device; builds for a device take the others instead.
set(ESPALIER_SOURCES device_host.cpp ledger.cpp)
set(ESPALIER_DEVICE_SOURCES device_cuda.cpp ledger.cpp stream_cuda.cpp)
