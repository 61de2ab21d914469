// SPDX-License-Identifier: Apache-2.0
// A small model with every kind of tensor, cut over tensor-parallel ranks, and values that depend
// on the place in the whole model alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "blueprint/parameter_table.hpp"
#include "blueprint/partition.hpp"
#include "core/random.hpp"
#include "deck/deck.hpp"

namespace espalier {

/// Lengths that four shards do not divide, grouped heads that two of them share, biases.
inline Config small_config() {
  const DeckResult result = parse_deck(R"(
      data.source = "random"
      batch.seq_length = 24
      model.vocab_size = 37
      model.hidden_size = 20
      model.intermediate_size = 26
      model.num_layers = 2
      model.num_heads = 4
      model.num_kv_heads = 2
      model.head_dim = 6
      model.qk_norm = true
      )",
                                       "test.toml");
  EXPECT_TRUE(result.ok()) << fault_list(result.faults);
  Config config = result.config;
  config.model.tie_embeddings = false;
  return config;
}

constexpr int64_t kVirtualShards = 4;

inline ParameterTable small_table(int64_t ranks = 1, int64_t rank = 0,
                                  int64_t shards = kVirtualShards) {
  ModelPlace place;
  place.split.ranks = ranks;
  place.split.rank = rank;
  place.split.shards = shards;
  return make_parameter_table(small_config(), place);
}

/// Values over seven decades.
inline double value_at(const ParameterSpec& p, int64_t row, int64_t column, uint64_t seed) {
  const int64_t columns = p.shape.size() == 1 ? 1 : p.shape[1];
  const auto index = static_cast<uint64_t>(row * columns + column);
  return random_normal(seed, hash_name(p.name), index) *
         std::pow(10.0, 7.0 * random_uniform(seed + 1, hash_name(p.name), index));
}

/// The flat buffer of one rank; `padding` lies between the tensors.
template <class Real>
std::vector<Real> flat_values(const ParameterTable& table, uint64_t seed, Real padding) {
  std::vector<Real> flat(static_cast<size_t>(table.flat_size), padding);
  for (const ParameterSpec& p : table.parameters) {
    const bool is_vector = p.shape.size() == 1, by_column = p.split == Split::columns;
    const int64_t pitch = is_vector ? 1 : p.columns();
    for (const ShardPiece& piece : p.pieces)
      for (int64_t i = 0; i < piece.count; ++i) {
        const int64_t others = is_vector ? 1 : by_column ? p.rows() : p.columns();
        for (int64_t j = 0; j < others; ++j) {
          const int64_t local = piece.local_first + i, global = piece.global_first + i;
          const int64_t at = by_column ? j * pitch + local : local * pitch + j;
          flat[static_cast<size_t>(p.offset + at)] = static_cast<Real>(
              by_column ? value_at(p, j, global, seed) : value_at(p, global, j, seed));
        }
      }
  }
  return flat;
}

/// What a shard's compact buffer holds of a flat one.
template <class Real>
std::vector<Real> compacted(const std::vector<Real>& flat, const Partition& partition,
                            int64_t shard) {
  std::vector<Real> compact(static_cast<size_t>(partition.compact_size(shard)));
  for (const OwnedRange& r : partition.owned_by(shard))
    std::copy_n(flat.begin() + r.flat, r.size, compact.begin() + r.compact);
  return compact;
}

}  // namespace espalier
