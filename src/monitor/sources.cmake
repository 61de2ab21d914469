# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES memory.cpp metrics.cpp progress.cpp progress_text.cpp run_time.cpp)
