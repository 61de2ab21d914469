// SPDX-License-Identifier: Apache-2.0
// The element types every layer is instantiated for.
#pragma once

#include "tensor/types.hpp"

#define ESPALIER_FOR_EACH_ELEMENT_TYPE(macro) macro(float) macro(double) macro(bf16) macro(fp16)
