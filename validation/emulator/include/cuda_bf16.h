// SPDX-License-Identifier: Apache-2.0
// Emulated device: empty. Kernels use espalier::bf16 and the functions of cuda/primitives.cuh.
#pragma once
