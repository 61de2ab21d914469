// SPDX-License-Identifier: Apache-2.0
#include "array.hpp"

#include <algorithm>
#include <limits>

namespace espalier::check {
namespace {

constexpr std::byte kGuard{0xA5};

template <class T>
void write_elements(std::byte* to, const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T x = static_cast<T>(static_cast<Acc<T>>(values[i]));
    std::copy_n(reinterpret_cast<const std::byte*>(&x), sizeof x, to + i * sizeof x);
  }
}

template <class T>
void read_elements(const std::byte* from, std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    T x;
    std::copy_n(from + i * sizeof x, sizeof x, reinterpret_cast<std::byte*>(&x));
    values[i] = static_cast<double>(static_cast<Acc<T>>(x));
  }
}

}  // namespace

Array::Array(ElementType type, int64_t size)
    : type_(type),
      size_(size),
      memory_(Kokkos::ViewAllocateWithoutInitializing("array"),
              2 * kGuardBytes + size * element_bytes(type)) {
  poison();
}

void Array::poison() {
  auto host = Kokkos::create_mirror_view(memory_);
  std::fill_n(host.data(), memory_.extent(0), kGuard);
  Kokkos::deep_copy(memory_, host);
  fill(std::vector<double>(size_, std::numeric_limits<double>::quiet_NaN()));
}

void Array::fill(const std::vector<double>& values) {
  ESPALIER_REQUIRE(static_cast<int64_t>(values.size()) == size_, "{} values for {} elements",
                   values.size(), size_);
  auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, memory_);
  std::byte* to = host.data() + kGuardBytes;
  switch (type_) {
    case ElementType::fp32: write_elements<float>(to, values); break;
    case ElementType::fp64: write_elements<double>(to, values); break;
    case ElementType::bf16: write_elements<bf16>(to, values); break;
    case ElementType::fp16: write_elements<fp16>(to, values); break;
  }
  Kokkos::deep_copy(memory_, host);
}

std::vector<double> Array::read() const {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, memory_);
  const std::byte* from = host.data() + kGuardBytes;
  std::vector<double> values(size_);
  switch (type_) {
    case ElementType::fp32: read_elements<float>(from, values); break;
    case ElementType::fp64: read_elements<double>(from, values); break;
    case ElementType::bf16: read_elements<bf16>(from, values); break;
    case ElementType::fp16: read_elements<fp16>(from, values); break;
  }
  return values;
}

bool Array::guards_are_intact() const {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, memory_);
  const auto is_guard = [](std::byte b) { return b == kGuard; };
  const std::byte* end = host.data() + host.extent(0);
  return std::all_of(host.data(), host.data() + kGuardBytes, is_guard) &&
         std::all_of(end - kGuardBytes, end, is_guard);
}

void Array::write_past_the_end() {
  auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, memory_);
  host(host.extent(0) - kGuardBytes) = std::byte{0};
  Kokkos::deep_copy(memory_, host);
}

}  // namespace espalier::check
