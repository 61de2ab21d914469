// SPDX-License-Identifier: Apache-2.0
// Fields of binary headers: little-endian, at fixed offsets, aligned or not.
#pragma once

#include <cstddef>
#include <cstring>

namespace espalier {

template <class Bytes, class T>
void put_field(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
T get_field(const unsigned char* bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes + at, sizeof(T));
  return value;
}

}  // namespace espalier
