// SPDX-License-Identifier: Apache-2.0
// Tensors to write, shaped like a model.
#include <algorithm>

#include "commands/bench_checkpoint.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

// Numbers without a pattern: a file system may compress, and pages of zeros are cheap.
void fill(std::vector<float>& buffer, int rank) {
  for (size_t i = 0; i < buffer.size(); i += 4) {
    const Philox4 r = philox(17, static_cast<uint64_t>(rank), i);
    for (size_t k = i; k < std::min(i + 4, buffer.size()); ++k)
      buffer[k] = static_cast<float>(r.v[k - i]) * 0x1p-32f - 0.5f;
  }
}

void count_bytes(BenchState& state, const Comm& world) {
  for (const TensorSlab& slab : state.slabs) state.bytes += shape_bytes(slab.extent, sizeof(float));
  state.bytes *= static_cast<int64_t>(state.groups.size());
  std::vector<int64_t> all(static_cast<size_t>(world.size()));
  world.all_gather(&state.bytes, 1, all.data());
  for (int r = 0; r < world.size(); ++r) {
    if (r < world.rank()) state.first += all[static_cast<size_t>(r)];
    state.total += all[static_cast<size_t>(r)];
  }
}

enum class CutAlong { rows, columns };

/// One tensor of the model, cut evenly over the ranks; `at` is the place in this rank's buffer.
void add_tensor(BenchState& state, const Comm& world, const std::string& name, const Shape& shape,
                CutAlong along, int64_t& at) {
  state.rows.push_back({name, shape, 0});
  const size_t cut = along == CutAlong::rows ? 0 : 1;
  const Range part = cut_evenly(shape[cut], world.size(), world.rank());
  TensorSlab slab{name, Shape(shape.size(), 0), shape, nullptr};
  slab.offset[cut] = part.first;
  slab.extent[cut] = part.count;
  slab.data = state.buffer.data() + at;
  at += shape_bytes(slab.extent, 1);
  state.slabs.push_back(slab);
}

}  // namespace

BenchState make_deck_state(const Launch& launch) {
  const Blueprint& b = launch.blueprint;
  BenchState state;
  state.groups = {"parameters", "optimizer/first_moment", "optimizer/second_moment"};
  state.rows = tensor_rows(make_parameter_table(b.config));
  state.buffer.resize(static_cast<size_t>(b.parameters.flat_size));
  const Comm& world = launch.grid.world();
  fill(state.buffer, world.rank());
  if (b.rank.data < b.zero_shards)
    state.slabs = owned_slabs(b.parameters, b.partition.owned_by(b.rank.data), Indexing::flat,
                              state.buffer.data());
  count_bytes(state, world);
  return state;
}

BenchState make_sample_state(const Comm& world, int64_t mib) {
  BenchState state;
  state.groups = {"parameters"};
  const int64_t hidden = 1024, layer = 12 * hidden * hidden + hidden;
  const int64_t elements = (mib << 20) / static_cast<int64_t>(sizeof(float)) * world.size();
  const int64_t layers = elements / layer, rest = (elements - layers * layer) / hidden;
  state.buffer.resize(static_cast<size_t>(elements / world.size() + (layers + 1) * 16 * hidden));
  fill(state.buffer, world.rank());
  int64_t at = 0;
  if (rest > 0)
    add_tensor(state, world, "embedding.token.weight", {rest, hidden}, CutAlong::rows, at);
  for (int64_t l = 0; l < layers; ++l) {
    const std::string name = fmt::format("layers.{}.", l);
    add_tensor(state, world, name + "attention.norm.weight", {hidden}, CutAlong::rows, at);
    add_tensor(state, world, name + "attention.qkv.weight", {3 * hidden, hidden}, CutAlong::rows,
               at);
    add_tensor(state, world, name + "attention.output.weight", {hidden, hidden}, CutAlong::columns,
               at);
    add_tensor(state, world, name + "mlp.up.weight", {4 * hidden, hidden}, CutAlong::rows, at);
    add_tensor(state, world, name + "mlp.down.weight", {hidden, 4 * hidden}, CutAlong::columns, at);
  }
  ESPALIER_REQUIRE(at <= static_cast<int64_t>(state.buffer.size()),
                   "the sample state needs {} elements of {}", at, state.buffer.size());
  count_bytes(state, world);
  return state;
}

}  // namespace espalier
