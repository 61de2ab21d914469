// SPDX-License-Identifier: Apache-2.0
// Planned memory: every tensor where the plan says, aligned, apart from all others.
#include "tensor/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tensor/profile.hpp"

namespace espalier {
namespace {

std::vector<PlannedTensor> plan() {
  return {{"a", 3, 5, Storage::compute},
          {"b", 1, 1, Storage::accumulate},
          {"c", 7, 9, Storage::index},
          {"d", 64, 1, Storage::compute}};
}

TEST(PlannedBytes, FollowTheStorageAndTheComputeType) {
  const auto bytes = [](Storage storage, ElementType type) {
    return planned_bytes(PlannedTensor{"x", 16, 4, storage}, type);
  };
  EXPECT_EQ(bytes(Storage::compute, ElementType::bf16), 64 * 2);
  EXPECT_EQ(bytes(Storage::compute, ElementType::fp16), 64 * 2);
  EXPECT_EQ(bytes(Storage::compute, ElementType::fp32), 64 * 4);
  EXPECT_EQ(bytes(Storage::compute, ElementType::fp64), 64 * 8);
  EXPECT_EQ(bytes(Storage::accumulate, ElementType::bf16), 64 * 4);
  EXPECT_EQ(bytes(Storage::accumulate, ElementType::fp32), 64 * 4);
  EXPECT_EQ(bytes(Storage::accumulate, ElementType::fp64), 64 * 8);
  EXPECT_EQ(bytes(Storage::index, ElementType::bf16), 64 * 4);
  EXPECT_EQ(bytes(Storage::index, ElementType::fp64), 64 * 4);
  EXPECT_EQ(planned_bytes(PlannedTensor{"x", 1, 1, Storage::compute}, ElementType::bf16),
            kArenaAlignment);
}

template <class T>
void expect_disjoint(ElementType type) {
  const int64_t bytes = planned_bytes(plan(), type);
  Arena arena(2 * bytes);
  EXPECT_EQ(arena.bytes(), 2 * bytes);
  const TensorSet first = arena.carve(plan(), type), second = arena.carve(plan(), type);
  struct Span {
    std::uintptr_t begin, end;
  };
  std::vector<Span> spans;
  const auto note = [&](const auto& m) {
    const auto begin = reinterpret_cast<std::uintptr_t>(m.data());
    EXPECT_EQ(begin % kArenaAlignment, 0u);
    spans.push_back({begin, begin + m.extent(0) * m.extent(1) * sizeof(*m.data())});
  };
  for (const TensorSet* set : {&first, &second}) {
    note(set->get<T>("a"));
    note(set->get<Acc<T>>("b"));
    note(set->get<int32_t>("c"));
    note(set->get<T>("d"));
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& x, const Span& y) { return x.begin < y.begin; });
  for (size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].end, spans[i].begin);
  EXPECT_LE(spans.back().end - spans.front().begin, static_cast<std::uintptr_t>(2 * bytes));
  EXPECT_EQ(first.get<T>("a").extent(0), 3u);
  EXPECT_EQ(first.get<T>("a").extent(1), 5u);
}
TEST(Arena, TensorsAreAlignedAndDisjoint) {
  expect_disjoint<float>(ElementType::fp32);
  expect_disjoint<double>(ElementType::fp64);
  expect_disjoint<bf16>(ElementType::bf16);
}

TEST(Arena, RefusesMoreThanItHas) {
  const int64_t bytes = planned_bytes(plan(), ElementType::fp32);
  Arena arena(bytes);
  arena.carve(plan(), ElementType::fp32);
  EXPECT_THROW(arena.carve({{"e", 1, 1, Storage::index}}, ElementType::fp32), InternalError);
}

TEST(Arena, RefusesAnUnknownName) {
  Arena arena(planned_bytes(plan(), ElementType::fp32));
  const TensorSet set = arena.carve(plan(), ElementType::fp32);
  EXPECT_THROW(set.get<float>("e"), InternalError);
}

TEST(Profile, ChargesSecondsToTheirPart) {
  Profile& profile = Profile::instance();
  profile.reset();
  const Buffer<std::byte> memory("memory", 1 << 24);
  {
    const ScopedPart part(Part::loss);
    device::fill(memory.data(), 1, memory.bytes());
    const double start = monotonic_seconds();
    while (monotonic_seconds() - start < 0.002) {
    }
  }
  if constexpr (device::kPresent) {  // the device's seconds, when they are collected
    EXPECT_EQ(profile.seconds(Part::loss), 0.0);
    device::Stream::compute().synchronize();
    profile.collect();
    EXPECT_GT(profile.seconds(Part::loss), 0.0);
    profile.clear();
  } else {
    EXPECT_GE(profile.seconds(Part::loss), 0.002);
  }
  EXPECT_EQ(profile.seconds(Part::matmul), 0.0);
  profile.reset();
  EXPECT_EQ(profile.seconds(Part::loss), 0.0);
}

// On a device parts meet, or do not, as the streams happen to run; each of them is timed all the
// same, on each stream by itself, and what belongs to none is not once separate() said so.
TEST(Profile, TimesEveryPartOfEveryStream) {
  if constexpr (!device::kPresent) GTEST_SKIP() << "the host charges by its clock";
  Profile& profile = Profile::instance();
  profile.collect();
  profile.reset();
  const Buffer<std::byte> large("large", int64_t{1} << 28), small("small", 1 << 20);
  const auto work = [](Part part, const Buffer<std::byte>& memory) {
    const ScopedPart scope(part);
    device::fill(memory.data(), 1, memory.bytes());
  };
  for (int round = 0; round < 3; ++round) {
    work(Part::loss, small);
    work(Part::matmul, small);
    {
      const device::StreamScope scope(device::Stream::communication());
      work(Part::optimizer, small);
    }
    work(Part::norm, large);
    { const ScopedPart scope(Part::embedding); }
    device::fill(large.data(), 2, large.bytes());
    profile.separate();
    work(Part::data, small);
  }
  device::Stream::compute().synchronize();
  device::Stream::communication().synchronize();
  profile.collect();
  for (const Part part : {Part::loss, Part::matmul, Part::optimizer, Part::data})
    EXPECT_GT(profile.seconds(part), 0.0) << part_name(part);
  for (const Part part : {Part::loss, Part::matmul, Part::embedding, Part::data})
    EXPECT_LT(profile.seconds(part), profile.seconds(Part::norm) / 2) << part_name(part);
  EXPECT_EQ(profile.seconds(Part::activation), 0.0);
  const auto before = profile.all();
  profile.collect();
  EXPECT_EQ(profile.all(), before) << "counted twice";
  profile.clear();
  profile.reset();
}

}  // namespace
}  // namespace espalier
