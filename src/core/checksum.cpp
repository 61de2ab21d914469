// SPDX-License-Identifier: Apache-2.0
// The kernel of the tensor checksum, compiled for several instruction sets where the compiler can.
#include "core/checksum.hpp"

#include <cstring>

#include "core/error.hpp"
#include "core/random.hpp"

// The wider clone is chosen when the program is loaded, when sanitizers are not ready yet. AVX2 has
// no 64-bit multiply: measured on one core (Zen 4, GCC 12) floats at 5.9 GB/s with it and as fast
// without, 19.5 GB/s with AVX-512.
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && \
    defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ESPALIER_EVERY_VECTOR_WIDTH __attribute__((target_clones("default", "arch=x86-64-v4")))
#else
#define ESPALIER_EVERY_VECTOR_WIDTH
#endif

namespace espalier {

namespace {

constexpr uint64_t kRowStep = 0x9e3779b97f4a7c15ull;     // 2^64 / golden ratio, odd
constexpr uint64_t kColumnStep = 0xd1342543de82ef95ull;  // Steele & Vigna 2021, arXiv:2001.05304
constexpr uint64_t kKeyFactor = 0xaf251af3b0f025b5ull;   // the same, table of multipliers

uint64_t mix(uint64_t v) {
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
  return v ^ (v >> 31);
}

// Doubles that were floats, or round, have their low bits zero, so that a difference of two keys
// would count with its low bits only: a fold brings high bits down. It is a bijection.
inline uint64_t fold(uint64_t bits) {
  return bits ^ (bits >> 32);
}
inline uint64_t fold(uint32_t bits) {
  return bits;
}
inline uint64_t fold(uint16_t bits) {
  return bits;
}
inline uint64_t fold(uint8_t bits) {
  return bits;
}

// memcpy of one element is a plain load, of any alignment.
#define ESPALIER_SUM_OF(Bits)                                                          \
  ESPALIER_EVERY_VECTOR_WIDTH uint64_t sum_##Bits(uint64_t start, const char* data,    \
                                                  int64_t count) {                     \
    uint64_t sum = 0;                                                                  \
    for (int64_t i = 0; i < count; ++i) {                                              \
      Bits bits;                                                                       \
      std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits)); \
      const uint64_t k = start + static_cast<uint64_t>(i) * kColumnStep;               \
      sum += fold(bits) * (((k ^ (k >> 32)) * kKeyFactor) | 1);                        \
    }                                                                                  \
    return sum;                                                                        \
  }
ESPALIER_SUM_OF(uint8_t)
ESPALIER_SUM_OF(uint16_t)
ESPALIER_SUM_OF(uint32_t)
ESPALIER_SUM_OF(uint64_t)
#undef ESPALIER_SUM_OF

}  // namespace

uint64_t checksum_seed(std::string_view name) {
  return mix(hash_name(name));
}

uint64_t checksum_run(uint64_t seed, int64_t row, int64_t first_column, const void* data,
                      int64_t count, int element_bytes) {
  const uint64_t start = mix(seed + static_cast<uint64_t>(row) * kRowStep) +
                         static_cast<uint64_t>(first_column) * kColumnStep;
  const auto* bytes = static_cast<const char*>(data);
  switch (element_bytes) {
    case 1: return sum_uint8_t(start, bytes, count);
    case 2: return sum_uint16_t(start, bytes, count);
    case 4: return sum_uint32_t(start, bytes, count);
    case 8: return sum_uint64_t(start, bytes, count);
    default: break;
  }
  throw InternalError(fmt::format("no checksum of elements of {} bytes", element_bytes));
}

}  // namespace espalier
