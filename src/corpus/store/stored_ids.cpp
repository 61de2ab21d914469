// SPDX-License-Identifier: Apache-2.0
// One loop for every element type, which the compiler can vectorise.
#include "corpus/store/stored_ids.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace espalier {
namespace {

template <class Stored>
Stored load(const unsigned char* from, int64_t place) {
  Stored id;
  std::memcpy(&id, from + place * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
  return id;
}

// Negative ids become the largest of the unsigned numbers, so one maximum finds both kinds.
template <class Stored>
int64_t copy(const unsigned char* from, int64_t count, int64_t limit, int32_t* out) {
  using Wide = std::conditional_t<sizeof(Stored) == 8, uint64_t, uint32_t>;
  Wide largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Stored id = load<Stored>(from, i);
    largest = std::max(largest, static_cast<Wide>(id));
    out[i] = static_cast<int32_t>(id);
  }
  if (count == 0 || largest < static_cast<uint64_t>(limit)) return -1;
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<Wide>(load<Stored>(from, i)) >= static_cast<uint64_t>(limit)) return i;
  }
  return -1;
}

template <class Function>
auto with_type(IdType type, Function&& function) {
  switch (type) {
    case IdType::uint8: return function(uint8_t{});
    case IdType::int8: return function(int8_t{});
    case IdType::uint16: return function(uint16_t{});
    case IdType::int16: return function(int16_t{});
    case IdType::uint32: return function(uint32_t{});
    case IdType::int32: return function(int32_t{});
    case IdType::int64: break;
  }
  return function(int64_t{});
}

}  // namespace

int64_t id_bytes(IdType type) {
  return with_type(type, [](auto id) { return static_cast<int64_t>(sizeof id); });
}

int64_t copy_ids(IdType type, const unsigned char* from, int64_t count, int64_t limit,
                 int32_t* out) {
  return with_type(type, [&](auto id) { return copy<decltype(id)>(from, count, limit, out); });
}

int64_t id_at(IdType type, const unsigned char* from, int64_t place) {
  return with_type(type,
                   [&](auto id) { return static_cast<int64_t>(load<decltype(id)>(from, place)); });
}

}  // namespace espalier
