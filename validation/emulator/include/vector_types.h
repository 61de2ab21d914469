// SPDX-License-Identifier: Apache-2.0
// Emulated device: CUDA's small vector types and their makers. May alias other types, since kernels
// move 16 bytes of anything as one word.
#pragma once

#define ESPALIER_VECTOR(name, type, alignment)                                              \
  struct __attribute__((aligned(alignment), may_alias)) name##1 {                           \
    type x;                                                                                 \
  };                                                                                        \
  struct __attribute__((aligned(2 * alignment), may_alias)) name##2 {                       \
    type x, y;                                                                              \
  };                                                                                        \
  struct __attribute__((may_alias)) name##3 {                                               \
    type x, y, z;                                                                           \
  };                                                                                        \
  struct __attribute__((aligned(alignment >= 4 ? 16 : 4 * alignment), may_alias)) name##4 { \
    type x, y, z, w;                                                                        \
  };                                                                                        \
  inline name##1 make_##name##1(type x) {                                                   \
    return name##1 {x};                                                                     \
  }                                                                                         \
  inline name##2 make_##name##2(type x, type y) {                                           \
    return name##2 {x, y};                                                                  \
  }                                                                                         \
  inline name##3 make_##name##3(type x, type y, type z) {                                   \
    return name##3 {x, y, z};                                                               \
  }                                                                                         \
  inline name##4 make_##name##4(type x, type y, type z, type w) {                           \
    return name##4 {x, y, z, w};                                                            \
  }

ESPALIER_VECTOR(char, signed char, 1)
ESPALIER_VECTOR(uchar, unsigned char, 1)
ESPALIER_VECTOR(short, short, 2)
ESPALIER_VECTOR(ushort, unsigned short, 2)
ESPALIER_VECTOR(int, int, 4)
ESPALIER_VECTOR(uint, unsigned int, 4)
ESPALIER_VECTOR(longlong, long long, 8)
ESPALIER_VECTOR(ulonglong, unsigned long long, 8)
ESPALIER_VECTOR(float, float, 4)
ESPALIER_VECTOR(double, double, 8)
#undef ESPALIER_VECTOR

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT: converts, as CUDA's
      : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}  // NOLINT
};
