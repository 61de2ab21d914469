// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "../device_list.hpp"

namespace espalier::check {
namespace {

constexpr std::byte kGuard{0xA5};

}  // namespace

Array::Array(ElementType type, int64_t size)
    : type_(type),
      size_(size),
      memory_("array", 2 * kGuardBytes + size * element_bytes(type), Contents::undefined) {
  poison();
}

void Array::poison() {
  device::fill(memory_.data(), std::to_integer<int>(kGuard), memory_.bytes());
  fill(std::vector<double>(size_, std::numeric_limits<double>::quiet_NaN()));
}

void Array::fill(const std::vector<double>& values) {
  ESPALIER_REQUIRE(static_cast<int64_t>(values.size()) == size_, "{} values for {} elements",
                   values.size(), size_);
  switch (type_) {
    case ElementType::fp32: return write_to(as<float>(), values);
    case ElementType::fp64: return write_to(as<double>(), values);
    case ElementType::bf16: return write_to(as<bf16>(), values);
    case ElementType::fp16: return write_to(as<fp16>(), values);
  }
}

std::vector<double> Array::read() const {
  switch (type_) {
    case ElementType::fp32: return read_from(as<float>(), size_);
    case ElementType::fp64: return read_from(as<double>(), size_);
    case ElementType::bf16: return read_from(as<bf16>(), size_);
    case ElementType::fp16: return read_from(as<fp16>(), size_);
  }
  return {};
}

bool Array::guards_are_intact() const {
  const std::byte* end = memory_.data() + memory_.size() - kGuardBytes;
  for (const std::byte* zone : {static_cast<const std::byte*>(memory_.data()), end}) {
    const auto bytes = host_copy(zone, kGuardBytes);
    if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != kGuard; }))
      return false;
  }
  return true;
}

void Array::write_past_the_end() {
  device::fill(memory_.data() + memory_.size() - kGuardBytes, 0, 1);
}

}  // namespace espalier::check
