// SPDX-License-Identifier: Apache-2.0
// Names and sizes of stored element types; shapes as text and as bytes.
#include "checkpoint/stored_type.hpp"

#include <fmt/ranges.h>

#include "core/error.hpp"

namespace espalier {

const char* stored_type_name(StoredType type) {
  switch (type) {
    case StoredType::fp32: return "fp32";
    case StoredType::bf16: return "bf16";
    case StoredType::fp16: return "fp16";
    case StoredType::fp64: return "fp64";
    case StoredType::int32: return "int32";
    case StoredType::int64: return "int64";
    case StoredType::text: return "text";
    case StoredType::other: return "a type that Espalier does not write";
  }
  return "?";
}

StoredType stored_type(ElementType type) {
  switch (type) {
    case ElementType::fp32: return StoredType::fp32;
    case ElementType::bf16: return StoredType::bf16;
    case ElementType::fp16: return StoredType::fp16;
    case ElementType::fp64: return StoredType::fp64;
  }
  throw InternalError("an element type without a stored type");
}

int64_t stored_type_bytes(StoredType type) {
  switch (type) {
    case StoredType::bf16:
    case StoredType::fp16: return 2;
    case StoredType::fp32:
    case StoredType::int32: return 4;
    case StoredType::fp64:
    case StoredType::int64: return 8;
    case StoredType::text:
    case StoredType::other: return 0;
  }
  return 0;
}

std::string shape_text(const Shape& shape) {
  return shape.empty() ? "a scalar" : fmt::format("[{}]", fmt::join(shape, ", "));
}

int64_t shape_bytes(const Shape& shape, int64_t element_bytes) {
  int64_t bytes = element_bytes;
  for (const int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return -1;
  return bytes;
}

}  // namespace espalier
