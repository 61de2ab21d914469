// SPDX-License-Identifier: Apache-2.0
// Initial values depend on seed, name and index alone; the compute copy is the rounded master.
#include "engine/parameter_store.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"

#include "../global_index.hpp"
#include "model_cases.hpp"
#include "model_problem.hpp"
#include "tensor/sums.hpp"

namespace espalier::check {
namespace {

template <class T>
std::vector<double> initial_values(const ParameterTable& table, const std::string& name,
                                   uint64_t seed) {
  ParameterStore<T> store(table);
  store.initialise(seed);
  const ParameterSpec& p = table.find(name);
  return read_from(store.master() + p.offset, p.size());
}

ParameterTable table_of(const Config& c) {
  return make_blueprint(c, 1).parameters;
}

Config wide_config() {
  Config c = small_config();
  c.model.hidden_size = 100;
  c.model.intermediate_size = 300;
  c.model.tie_embeddings = false;
  return c;
}

TEST(ParameterStore, FollowsTheInitialisers) {
  const ParameterTable table = table_of(wide_config());
  for (const auto& p : table.parameters) {
    const auto x = initial_values<double>(table, p.name, 1);
    double square = 0.0;
    for (const double value : x) square += value * value / static_cast<double>(x.size());
    if (p.initializer == Initializer::zeros)
      EXPECT_EQ(x, std::vector<double>(x.size(), 0.0)) << p.name;
    else if (p.initializer == Initializer::ones)
      EXPECT_EQ(x, std::vector<double>(x.size(), 1.0)) << p.name;
    else  // six standard errors of a variance
      EXPECT_NEAR(square / (p.init_std * p.init_std), 1.0, 6 * std::sqrt(2.0 / x.size())) << p.name;
  }
}

TEST(ParameterStore, EveryElementIsInAMatrixOrBesideThem) {
  for (const ModelCase& c : named_cases()) {
    const ParameterTable table = table_of(c.config);
    std::vector<int> seen(static_cast<size_t>(table.flat_size), 0);
    const auto ranges = ranges_beside_matrices(table);
    ASSERT_EQ(ranges.size(), table.blocks.size());
    for (size_t block = 0; block < ranges.size(); ++block) {
      int64_t last = -1;
      for (const FlatRange& r : ranges[block]) {
        EXPECT_GT(r.size, 0);
        EXPECT_GT(r.offset, last) << "neighbours are one range";
        last = r.last();
        for (int64_t i = r.offset; i < r.last(); ++i) ++seen[table.blocks[block].offset + i];
      }
      EXPECT_LE(last, table.blocks[block].size);
    }
    for (const auto& p : table.parameters)
      if (p.shape.size() == 2)
        for (int64_t i = p.offset; i < p.offset + p.size(); ++i) ++seen[i];
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << c.name;
  }
}

TEST(ParameterStore, ValuesArePureFunctionsOfSeedNameAndIndex) {
  const Config c = wide_config();
  const ParameterTable table = table_of(c);
  const std::string name = "layers.1.mlp.up.weight";
  const auto x = initial_values<double>(table, name, 1);
  const double std = table.find(name).init_std;
  for (const int64_t i : {int64_t{0}, int64_t{777}, table.find(name).size() - 1})
    EXPECT_EQ(x[i], std * random_normal(1, hash_name(name), i));
  EXPECT_NE(initial_values<double>(table, name, 2), x);
  EXPECT_NE(initial_values<double>(table, "layers.0.mlp.up.weight", 1), x);

  // Other parts of the model move the tensor in the flat buffer, not its values.
  Config other = c;
  other.model.num_layers = 4;
  other.model.position = PositionKind::rope;
  other.model.qk_norm = true;
  other.model.bias = false;
  other.model.vocab_size = 91;
  other.grid.data_parallel = 2;
  other.batch.global_batch_size = 4;
  const ParameterTable moved = table_of(other);
  EXPECT_NE(moved.find(name).offset, table.find(name).offset);
  EXPECT_EQ(initial_values<double>(moved, name, 1), x);
  // More rows leave the first ones as they were.
  const auto few = initial_values<double>(table, "embedding.token.weight", 1);
  auto many = initial_values<double>(moved, "embedding.token.weight", 1);
  many.resize(few.size());
  EXPECT_EQ(many, few);
}

template <class T>
void check_compute_copy() {
  const ParameterTable table = table_of(wide_config());
  ParameterStore<T> store(table);
  store.initialise(3);
  for (int pass = 0; pass < 2; ++pass) {
    const auto values = host_copy<T>(store.values(), table.flat_size);
    const auto master = host_copy(store.master(), table.flat_size);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(static_cast<Acc<T>>(values[i]), static_cast<Acc<T>>(T(master[i])));
    multiply_by(store.master(), Acc<T>(1.01), table.flat_size);
    store.refresh_compute_copy();
  }
  constexpr bool kSame = std::is_same_v<T, Acc<T>>;
  EXPECT_EQ(store.separate_compute_copy() == nullptr, kSame);
}
TEST(ParameterStore, ComputeCopyIsTheRoundedMaster) {
  check_compute_copy<float>();
  check_compute_copy<double>();
  check_compute_copy<bf16>();
  check_compute_copy<fp16>();
}

// fp32 and the 16-bit types start from the rounded fp64 values.
TEST(ParameterStore, TypesStartAlike) {
  const ParameterTable table = table_of(wide_config());
  const auto exact = initial_values<double>(table, "output.weight", 1);
  const auto single = initial_values<float>(table, "output.weight", 1);
  EXPECT_EQ(initial_values<bf16>(table, "output.weight", 1), single);
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_EQ(single[i], static_cast<double>(static_cast<float>(exact[i])));
}

/// Ranks of a grid of tp x dp x 2 pipeline stages, with key heads that ranks repeat, a vocabulary
/// and rows that nothing divides, and every kind of tensor.
Config grid_config(int64_t tp, int64_t shards, int64_t zero, bool tied) {
  Config c = small_config();
  c.model.num_heads = 8;
  c.model.num_kv_heads = 2;
  c.model.qk_norm = true;
  c.model.activation = tied ? Activation::gelu : Activation::swiglu;
  c.model.tie_embeddings = tied;
  c.batch.global_batch_size = 8;
  c.grid.tensor_parallel = tp;
  c.grid.pipeline_parallel = 2;
  c.grid.data_parallel = 2;
  c.grid.zero_stage = zero;
  c.numerics.reproducible = shards > 0;
  c.numerics.virtual_tensor_parallel = std::max<int64_t>(1, shards);
  return c;
}

template <class F>
void for_each_rank(const Config& c, const F& f) {
  const GridConfig& g = c.grid;
  for (int64_t p = 0; p < g.pipeline_parallel; ++p)
    for (int64_t d = 0; d < g.data_parallel; ++d)
      for (int64_t t = 0; t < g.tensor_parallel; ++t)
        f(make_blueprint(c, g.tensor_parallel * g.pipeline_parallel * g.data_parallel, {p, d, t}));
}

// Initialisers give ones and zeros as well; random numbers tell every element from every other.
ParameterTable all_normal(ParameterTable table) {
  for (ParameterSpec& p : table.parameters) {
    p.initializer = Initializer::normal;
    p.init_std = 0.5;
  }
  return table;
}

TEST(ParameterStore, EveryRankHasTheGlobalValuesOfItsElements) {
  for (const bool tied : {true, false})
    for (const auto& [tp, shards] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 0}, {2, 0}, {4, 0}, {1, 4}, {2, 4}, {4, 4}, {1, 8}, {2, 8}, {4, 8}}) {
      const Config c = grid_config(tp, shards, 0, tied);
      for_each_rank(c, [&](const Blueprint& b) {
        const ParameterTable table = all_normal(b.parameters);
        ParameterStore<double> store(table);
        store.initialise(5);
        const GlobalIndex index(c.model, b.place.split);
        const auto master = host_copy(store.master(), table.flat_size);
        int64_t wrong = 0;
        for (const ParameterSpec& p : table.parameters)
          for (int64_t i = 0; i < p.size(); ++i) {
            const int64_t global = index(p, i / p.columns(), i % p.columns());
            wrong += master[p.offset + i] !=
                     0.5 * random_normal(5, hash_name(p.name), static_cast<uint64_t>(global));
          }
        EXPECT_EQ(wrong, 0) << "tp " << tp << ", shards " << shards << ", tied " << tied;
      });
    }
}

/// Elements whose bits differ from those of ZeRO stage 0, in the master and in what is computed
/// with.
template <class T>
int64_t differing_from_stage_0(const Blueprint& b, int64_t zero) {
  const ParameterTable table = all_normal(b.parameters);
  ParameterStore<T> everything(table), store(table, b.owned, zero);
  everything.initialise(5);
  store.initialise(5);
  int64_t compact = 0;
  for (const OwnedRange& r : b.owned) compact = std::max(compact, r.compact + r.size);
  const auto read = [&](const auto* from, Indexing indexing) {
    return read_from(from, indexing == Indexing::flat ? table.flat_size : compact);
  };
  int64_t wrong = 0;
  const auto compare = [&](const auto& found, Indexing indexing, const auto& expected) {
    for (const ParameterSpec& p : table.parameters)
      for (const OwnedRange& r : b.owned)
        for (int64_t i = std::max(p.offset, r.flat);
             i < std::min(p.offset + p.size(), r.flat + r.size); ++i)
          wrong += found[indexing == Indexing::flat ? i : r.compact + i - r.flat] != expected[i];
  };
  const auto values = read(store.values(), store.compute_indexing());
  const auto all_values = read(everything.values(), Indexing::flat);
  compare(read(store.master(), store.master_indexing()), store.master_indexing(),
          read(everything.master(), Indexing::flat));
  compare(values, store.compute_indexing(), all_values);
  if (store.compute_indexing() == Indexing::flat)  // all of it is computed with
    for (const ParameterSpec& p : table.parameters)
      for (int64_t i = p.offset; i < p.offset + p.size(); ++i) wrong += values[i] != all_values[i];
  return wrong;
}

TEST(ParameterStore, ZeroStagesKeepTheSameBits) {
  for (const int64_t zero : {1, 2, 3})
    for (const int64_t tp : {1, 2}) {
      for_each_rank(grid_config(tp, 4, zero, true), [&](const Blueprint& b) {
        EXPECT_EQ(differing_from_stage_0<float>(b, zero), 0) << zero;
        EXPECT_EQ(differing_from_stage_0<double>(b, zero), 0) << zero;
        EXPECT_EQ(differing_from_stage_0<bf16>(b, zero), 0) << zero;
        EXPECT_EQ(differing_from_stage_0<fp16>(b, zero), 0) << zero;
      });
    }
}

TEST(ParameterStore, ZeroStagesKeepOnlyWhatTheyMust) {
  for_each_rank(grid_config(2, 0, 3, true), [&](const Blueprint& b) {
    const auto indexing = [&](int64_t zero) {
      const ParameterStore<float> same(b.parameters, b.owned, zero);
      const ParameterStore<bf16> other(b.parameters, b.owned, zero);
      EXPECT_EQ(same.master_indexing(), same.compute_indexing());
      EXPECT_EQ(same.compute_indexing(), other.compute_indexing());
      return std::pair(other.master_indexing(), other.compute_indexing());
    };
    EXPECT_EQ(indexing(0), std::pair(Indexing::flat, Indexing::flat));
    EXPECT_EQ(indexing(1), std::pair(Indexing::compact, Indexing::flat));
    EXPECT_EQ(indexing(2), std::pair(Indexing::compact, Indexing::flat));
    EXPECT_EQ(indexing(3), std::pair(Indexing::compact, Indexing::compact));
    EXPECT_THROW(ParameterStore<float>(b.parameters, b.owned, 3).block(0), InternalError);
  });
}

// A bf16 master starts as the copy of an fp32 one, wherever it lies.
TEST(ParameterStore, Bf16MastersAreWhatACopyWouldBe) {
  for (const int64_t zero : {0, 1, 2, 3})
    for_each_rank(grid_config(2, 4, zero, true), [&](const Blueprint& b) {
      const ParameterTable table = all_normal(b.parameters);
      ParameterStore<bf16> copy(table, b.owned, zero);
      ParameterStore<bf16> single(table, b.owned, zero, ElementType::bf16);
      copy.initialise(5);
      single.initialise(5);
      EXPECT_TRUE(single.is_single());
      EXPECT_FALSE(copy.is_single());
      EXPECT_EQ(single.master(), nullptr);
      EXPECT_EQ(single.separate_compute_copy(), nullptr);
      ASSERT_EQ(single.compute_indexing(), copy.compute_indexing());
      EXPECT_EQ(single.master_indexing(), single.compute_indexing());
      single.refresh_compute_copy();  // there is nothing to refresh
      int64_t size = zero == 3 ? 0 : table.flat_size, wrong = 0;
      if (zero == 3)
        for (const OwnedRange& r : b.owned) size = std::max(size, r.compact + r.size);
      const auto rounded = host_copy(single.values(), size),
                 copied = host_copy(copy.values(), size);
      for (const ParameterSpec& p : table.parameters)
        for (const OwnedRange& r : b.owned)
          for (int64_t i = std::max(p.offset, r.flat);
               i < std::min(p.offset + p.size(), r.flat + r.size); ++i) {
            const auto at = static_cast<size_t>(zero == 3 ? r.compact + i - r.flat : i);
            wrong += rounded[at].bits != copied[at].bits;
          }
      EXPECT_EQ(wrong, 0) << zero;
    });
  const ParameterTable table = table_of(wide_config());
  const auto own = own_everything(table.flat_size);
  EXPECT_THROW(ParameterStore<fp16>(table, own, 0, ElementType::bf16), InternalError);
  EXPECT_THROW(ParameterStore<float>(table, own, 0, ElementType::bf16), InternalError);
}

TEST(ModelSlots, PointAtTheTablesRows) {
  for (const auto& c : named_cases()) {
    const Blueprint b = make_blueprint(c.config, 1);
    const ModelSlots slots = make_slots(b.parameters, b.config.model);
    const ParameterTable& t = b.parameters;
    const auto place = [&](const Slot& s) {
      return s.present() ? t.blocks[static_cast<size_t>(s.block)].offset + s.offset : -1;
    };
    EXPECT_EQ(place(slots.token), t.find("embedding.token.weight").offset);
    EXPECT_EQ(place(slots.output), c.config.model.tie_embeddings
                                       ? t.find("embedding.token.weight").offset
                                       : t.find("output.weight").offset);
    EXPECT_EQ(slots.position.present(), t.contains("embedding.position.weight"));
    EXPECT_EQ(slots.final_norm.bias.present(), t.contains("final_norm.bias"));
    const LayerSlots& l = slots.layers.back();
    const std::string prefix = fmt::format("layers.{}.", c.config.model.num_layers - 1);
    const auto& qkv = t.find(prefix + "attention.qkv.weight");
    EXPECT_EQ(place(l.qkv.weight), qkv.offset);
    EXPECT_EQ(l.qkv.weight.rows, qkv.shape[0]);
    EXPECT_EQ(l.qkv.weight.columns, qkv.shape[1]);
    EXPECT_EQ(l.qkv.bias.present(), c.config.model.bias);
    EXPECT_EQ(l.q_norm.weight.present(), c.config.model.qk_norm);
    EXPECT_EQ(l.mlp_norm.weight.present(), c.config.model.residual == Residual::sequential);
    EXPECT_EQ(place(l.down.weight), t.find(prefix + "mlp.down.weight").offset);
  }
}

// On the ranks of a grid: sizes of the local tensors, absent where another stage has them.
TEST(ModelSlots, AreThoseOfTheRanksPart) {
  for (const bool tied : {true, false})
    for_each_rank(grid_config(4, 4, 0, tied), [&](const Blueprint& b) {
      const ModelSlots slots = make_slots(b.parameters, b.config.model);
      const bool first = b.rank.pipeline == 0;
      EXPECT_EQ(slots.token.present(), first);
      EXPECT_EQ(slots.position.present(), first);
      EXPECT_EQ(slots.output.present(), !first || tied);
      if (!first) {
        EXPECT_EQ(b.parameters.blocks[slots.output.block].kind, BlockKind::output);
        EXPECT_EQ(slots.output.rows, cut_evenly(23, 4, b.rank.tensor).count);
      }
      EXPECT_EQ(slots.final_norm.weight.present(), !first);
      ASSERT_EQ(slots.layers.size(), 2u);
      for (int64_t layer = 0; layer < 2; ++layer) {
        const LayerSlots& l = slots.layers[layer];
        EXPECT_EQ(l.block >= 0, layer == b.rank.pipeline);
        EXPECT_EQ(l.qkv.weight.present(), layer == b.rank.pipeline);
        if (layer != b.rank.pipeline) continue;
        EXPECT_EQ(l.qkv.weight.rows, (8 / 4 + 2) * 4);  // two query heads, one key and value head
        EXPECT_EQ(l.output.weight.columns, 8);
        EXPECT_EQ(l.down.weight.columns, 5);
        EXPECT_EQ(l.up.weight.rows, tied ? 5 : 10);
        EXPECT_EQ(l.down.bias.columns, 12);
      }
    });
}

}  // namespace
}  // namespace espalier::check
