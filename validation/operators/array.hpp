// SPDX-License-Identifier: Apache-2.0
// Test tensors that notice what an operator should not do: guard zones on both sides, and NaN
// wherever nothing has been written yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier::check {

/// Flat tensor of one element type between two guard zones. A copy shares the memory.
class Array {
 public:
  Array() = default;
  Array(ElementType type, int64_t size);  // poisoned

  void poison();                                 // NaN in every element, fresh guard zones
  void fill(const std::vector<double>& values);  // rounded to the element type
  std::vector<double> read() const;
  bool guards_are_intact() const;
  void write_past_the_end();  // for negative controls

  ElementType type() const { return type_; }
  int64_t size() const { return size_; }

  template <class T>
  T* as() const {
    ESPALIER_REQUIRE(ElementTraits<T>::kType == type_, "an array of {} read as {}",
                     element_name(type_), element_name(ElementTraits<T>::kType));
    return reinterpret_cast<T*>(memory_.data() + kGuardBytes);
  }
  template <class T>
  Mat<T> matrix(int64_t rows, int64_t columns) const {
    ESPALIER_REQUIRE(rows * columns == size_, "{} x {} of {} elements", rows, columns, size_);
    return Mat<T>(as<T>(), rows, columns);
  }
  template <class T>
  Vec<T> vector() const {
    return Vec<T>(as<T>(), size_);
  }

 private:
  static constexpr int64_t kGuardBytes = 512;
  ElementType type_ = ElementType::fp64;
  int64_t size_ = 0;
  Buffer<std::byte> memory_;
};

using Arrays = std::vector<Array>;

/// The element type in which T is summed.
constexpr ElementType sum_type(ElementType t) {
  return t == ElementType::fp64 ? ElementType::fp64 : ElementType::fp32;
}

/// Distance from 1 to the next number of the type.
constexpr double machine_epsilon(ElementType t) {
  return t == ElementType::fp64   ? 0x1.0p-52
         : t == ElementType::fp32 ? 0x1.0p-23
         : t == ElementType::fp16 ? 0x1.0p-10
                                  : 0x1.0p-7;
}

}  // namespace espalier::check
