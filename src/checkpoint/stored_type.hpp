// SPDX-License-Identifier: Apache-2.0
// What the elements of a stored dataset are, and shapes with overflow-checked sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/element_type.hpp"

namespace espalier {

/// Element types of datasets. bf16 is stored as uint16 with the attribute element_type = "bf16",
/// since HDF5 readers know no such type; text is one fixed-length string; other is anything else,
/// which a reader may list and never reads.
enum class StoredType { fp32, bf16, fp16, fp64, int32, int64, text, other };

const char* stored_type_name(StoredType type);
StoredType stored_type(ElementType type);

/// Bytes of one element; 0 for text and other, whose size stands in the file.
int64_t stored_type_bytes(StoredType type);

/// Of the two kinds of tensors of a training state. Moments are fp32 or fp64; parameters the same,
/// or bf16 beside fp32 moments.
struct StateTypes {
  StoredType parameters = StoredType::fp32, moments = StoredType::fp32;
};

using Shape = std::vector<int64_t>;

/// "[3, 4]"; "a scalar" for no dimensions.
std::string shape_text(const Shape& shape);

/// Product of the extents times `element_bytes`, or -1 if an extent is negative or the product
/// exceeds int64.
int64_t shape_bytes(const Shape& shape, int64_t element_bytes);

struct bf16;  // tensor/types.hpp

/// The stored type of a C++ element type.
template <class T>
struct StoredTypeOf;
template <>
struct StoredTypeOf<float> {
  static constexpr StoredType kType = StoredType::fp32;
};
template <>
struct StoredTypeOf<bf16> {
  static constexpr StoredType kType = StoredType::bf16;
};
template <>
struct StoredTypeOf<double> {
  static constexpr StoredType kType = StoredType::fp64;
};
template <>
struct StoredTypeOf<int32_t> {
  static constexpr StoredType kType = StoredType::int32;
};
template <>
struct StoredTypeOf<int64_t> {
  static constexpr StoredType kType = StoredType::int64;
};

}  // namespace espalier
