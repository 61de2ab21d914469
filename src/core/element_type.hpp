// SPDX-License-Identifier: Apache-2.0
// The element types that tensors and messages may have, as data.
#pragma once

#include <cstdint>

namespace espalier {

enum class ElementType { fp32, bf16, fp16, fp64 };

/// Size of one element in bytes.
constexpr int64_t element_bytes(ElementType t) {
  return t == ElementType::fp64 ? 8 : t == ElementType::fp32 ? 4 : 2;
}

constexpr const char* element_name(ElementType t) {
  switch (t) {
    case ElementType::fp32: return "fp32";
    case ElementType::bf16: return "bf16";
    case ElementType::fp16: return "fp16";
    case ElementType::fp64: return "fp64";
  }
  return "?";
}

}  // namespace espalier
