// SPDX-License-Identifier: Apache-2.0
// The tensor checksum: the same for every cut, another one for every other tensor, and the same
// today and tomorrow, since files hold it.
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

std::vector<unsigned char> sample_bytes(int64_t count, uint64_t seed = 1) {
  std::vector<unsigned char> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(random_bits(seed, 2, i));
  return bytes;
}

constexpr int kWidths[] = {1, 2, 4, 8};

// The definition, element by element, without the vector code.
uint64_t plain_sum(uint64_t seed, int64_t row, int64_t first, const unsigned char* data,
                   int64_t count, int width) {
  const auto mix = [](uint64_t v) {
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ull;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebull;
    return v ^ (v >> 31);
  };
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, data + i * width, static_cast<size_t>(width));
    if (width == 8) bits ^= bits >> 32;
    const uint64_t k = mix(seed + static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15ull) +
                       static_cast<uint64_t>(first + i) * 0xd1342543de82ef95ull;
    sum += bits * (((k ^ (k >> 32)) * 0xaf251af3b0f025b5ull) | 1);
  }
  return sum;
}

TEST(Checksum, IsWhatItsDefinitionSays) {
  const std::vector<unsigned char> data = sample_bytes(8 * 300 + 3);
  for (const int width : kWidths)
    for (const int64_t count : {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 299})
      for (const int64_t shift : {0, 1, 3})  // any alignment
        EXPECT_EQ(checksum_run(77, 5, 1000000007, data.data() + shift, count, width),
                  plain_sum(77, 5, 1000000007, data.data() + shift, count, width))
            << width << " bytes, " << count << " elements from " << shift;
}

TEST(Checksum, AddsUpOverAnyCut) {
  const int64_t rows = 7, columns = 131;
  const uint64_t seed = checksum_seed("layers.0.mlp.up.weight");
  for (const int width : kWidths) {
    const std::vector<unsigned char> data = sample_bytes(rows * columns * width);
    const auto part = [&](int64_t row, int64_t first, int64_t count) {
      return checksum_run(seed, row, first, data.data() + (row * columns + first) * width, count,
                          width);
    };
    uint64_t whole = 0;
    for (int64_t r = 0; r < rows; ++r) whole += part(r, 0, columns);
    for (const int64_t cut : {1, 2, 64, 100, 130}) {
      uint64_t sum = 0;
      for (int64_t r = rows; r-- > 0;) sum += part(r, cut, columns - cut) + part(r, 0, cut);
      EXPECT_EQ(sum, whole) << width << " bytes, cut at " << cut;
    }
  }
}

TEST(Checksum, SeesEveryFlippedBit) {
  for (const int width : kWidths) {
    std::vector<unsigned char> data = sample_bytes(64 * width);
    const uint64_t good = checksum_run(3, 1, 10, data.data(), 64, width);
    std::set<uint64_t> sums{good};
    for (size_t bit = 0; bit < data.size() * 8; ++bit) {
      data[bit / 8] = static_cast<unsigned char>(data[bit / 8] ^ (1u << bit % 8));
      EXPECT_TRUE(sums.insert(checksum_run(3, 1, 10, data.data(), 64, width)).second)
          << width << " bytes, bit " << bit;
      data[bit / 8] = static_cast<unsigned char>(data[bit / 8] ^ (1u << bit % 8));
    }
  }
}

// Values as models hold them: round numbers, whose low bits are all zero.
template <class Real>
void check_swaps() {
  const std::vector<Real> round{0, 1, 2, -1, 0.5, 1024, 3, -0.25};
  const int width = sizeof(Real);
  int64_t unseen = 0, tried = 0;
  for (int64_t row = 0; row < 40; ++row)
    for (int64_t a = 0; a < 60; ++a)
      for (int64_t b = a + 1; b < 60; ++b) {
        const Real x = round[static_cast<size_t>(a) % 8], y = round[static_cast<size_t>(b) % 8];
        if (x == y) continue;
        const auto one = [&](int64_t column, Real value) {
          return checksum_run(9, row, column, &value, 1, width);
        };
        unseen += one(a, x) + one(b, y) == one(a, y) + one(b, x);
        ++tried;
      }
  EXPECT_EQ(unseen, 0) << "of " << tried;
}

TEST(Checksum, SeesSwappedElementsFloat) {
  check_swaps<float>();
}
TEST(Checksum, SeesSwappedElementsDouble) {
  check_swaps<double>();
}

TEST(Checksum, SeesSwappedRowsColumnsAndNames) {
  const std::vector<unsigned char> data = sample_bytes(4 * 32);
  const auto sum = [&](const char* name, int64_t row, int64_t column) {
    return checksum_run(checksum_seed(name), row, column, data.data(), 32, 4);
  };
  std::set<uint64_t> sums;
  for (const char* name : {"a", "b", "layers.0.weight", "layers.1.weight"})
    for (int64_t row = 0; row < 50; ++row)
      for (int64_t column = 0; column < 50; ++column)
        EXPECT_TRUE(sums.insert(sum(name, row, column)).second) << name << row << column;
}

// Files hold these sums: a change here needs another format version.
TEST(Checksum, KeepsItsValue) {
  const std::vector<float> data{1.0f, -2.5f, 3e-9f, 0.0f, 1e30f};
  EXPECT_EQ(checksum_seed("final_norm.weight"), 18055809800533817250ull);
  EXPECT_EQ(checksum_run(checksum_seed("final_norm.weight"), 3, 4, data.data(), 5, 4),
            14077825769794804411ull);
  EXPECT_EQ(checksum_run(1, 2, 3, "espalier", 8, 1), 3198229127446977759ull);
  EXPECT_EQ(checksum_run(1, 2, 3, "espalier", 4, 2), 16329796416365587668ull);
  EXPECT_EQ(checksum_run(1, 2, 3, "espalier", 1, 8), 7302938898188374079ull);
}

TEST(Checksum, RefusesOtherWidths) {
  EXPECT_THROW(checksum_run(1, 0, 0, "abc", 1, 3), InternalError);
}

}  // namespace
}  // namespace espalier
