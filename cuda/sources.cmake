# SPDX-License-Identifier: Apache-2.0
# Every .cu file of this folder; one that is not listed stops the configure run.
set(ESPALIER_CUDA_SOURCES)
