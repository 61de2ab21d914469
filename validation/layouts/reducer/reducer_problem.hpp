// SPDX-License-Identifier: Apache-2.0
// What the tests of reducers and gathers share: a table with rows of all kinds, gradients that tell
// orders of additions apart, and the data-parallel ranks as shard groups and replicas.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "blueprint/partition.hpp"
#include "core/random.hpp"
#include "device_list.hpp"
#include "mpi_main.hpp"
#include "parallel/tree_sum.hpp"

namespace espalier {

/// Long rows, single rows, single elements and vectors, in blocks of all kinds.
inline ParameterTable problem_table() {
  ParameterTable table;
  const auto open = [&](BlockKind kind) {
    table.blocks.push_back(
        {"block " + std::to_string(table.blocks.size()), kind, -1, 0, table.flat_size, 0});
  };
  const auto add = [&](std::vector<int64_t> shape) {
    ParameterSpec p;
    p.name = "parameter " + std::to_string(table.parameters.size());
    p.shape = std::move(shape);
    p.pieces = {{0, p.shape[0], 0, p.shape.back(), true}};
    p.decay = p.shape.size() == 2;
    p.offset = table.flat_size;
    table.flat_size += (p.size() + 15) / 16 * 16;
    table.parameters.push_back(p);
    table.blocks.back().size = table.flat_size - table.blocks.back().offset;
  };
  open(BlockKind::token);
  add({101, 20});
  open(BlockKind::position);
  add({1, 50});
  for (int layer = 0; layer < 3; ++layer) {
    open(BlockKind::layer);
    add({20});
    add({60, 33});
    add({1});
    add({3, 700});
    add({7});
  }
  open(BlockKind::final_norm);
  add({20});
  open(BlockKind::output);
  add({101, 20});
  return table;
}

/// Values over seven decades, so that another order of additions gives other bits.
template <class Real>
const std::vector<Real>& leaf(int64_t index) {
  static std::map<int64_t, std::vector<Real>> made;
  static const int64_t size = problem_table().flat_size;
  std::vector<Real>& v = made[index];
  if (!v.empty()) return v;
  for (int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<uint64_t>(index * size + i);
    const double power = 7.0 * random_uniform(5, hash_name("magnitude"), at);
    v.push_back(static_cast<Real>(random_normal(5, hash_name("leaf"), at) * std::pow(10.0, power)));
  }
  return v;
}

template <class Real, class Wire = Real>
std::vector<Real> tree_of(const std::vector<std::vector<Wire>>& leaves) {
  std::vector<const Wire*> pointers;
  for (const auto& l : leaves) pointers.push_back(l.data());
  std::vector<Real> sum(leaves[0].size());
  TreeSum<Real, Wire>()(pointers, sum.data(), static_cast<int64_t>(sum.size()));
  return sum;
}

/// Elements that differ in any bit, in [first, first + size).
template <class T>
int64_t differing(const T* got, const T* expected, int64_t size) {
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += std::memcmp(got + i, expected + i, sizeof(T)) != 0;
  return count;
}

template <class T>
int64_t differing(const std::vector<T>& got, const std::vector<T>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  return differing(got.data(), expected.data(), static_cast<int64_t>(got.size()));
}

/// All ranks as `replicas` groups of neighbours that share a copy.
struct Groups {
  Comm shard, replica;
  int64_t shards, replicas, group;
  explicit Groups(int shards_in) : shards(shards_in) {
    const Comm& world = test_session().world();
    replicas = world.size() / shards;
    group = world.rank() / shards;
    shard = split(static_cast<int>(group), "shard");
    replica = split(static_cast<int>(world.rank() % shards), "replica");
  }

 private:
  static Comm split(int color, const char* axis) {
    const Comm& world = test_session().world();
    MPI_Comm handle = MPI_COMM_NULL;
    MPI_Comm_split(world.handle(), color, world.rank(), &handle);
    return Comm(handle, axis);
  }
};

using check::DeviceList;

/// A list whose values a copy brings that is still queued: what does not wait for it finds zeros.
template <class T>
class LateList {
 public:
  explicit LateList(const std::vector<T>& list)
      : source_(list), late_(static_cast<int64_t>(list.size())) {
    device::copy(late_.data(), source_.data(), source_.size() * static_cast<int64_t>(sizeof(T)));
  }
  T* data() const { return late_.data(); }
  std::vector<T> host() const { return late_.host(); }

 private:
  DeviceList<T> source_, late_;
};

/// Every way to divide the ranks in groups.
inline std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (int s = 1; s <= test_session().size(); ++s)
    if (test_session().size() % s == 0) sizes.push_back(s);
  return sizes;
}

}  // namespace espalier
