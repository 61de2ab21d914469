# SPDX-License-Identifier: Apache-2.0
set(ESPALIER_SOURCES device_health.cpp health_summary.cpp memory.cpp metrics.cpp progress.cpp progress_text.cpp run_time.cpp)
