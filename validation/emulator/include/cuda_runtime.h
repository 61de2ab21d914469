// SPDX-License-Identifier: Apache-2.0
// Emulated device: what Espalier uses of CUDA's runtime and of its device language, under g++.
#pragma once

#include "emulator/include/cuda_runtime_api.h"
#include "emulator/include/device_functions.h"
#include "emulator/include/vector_types.h"
