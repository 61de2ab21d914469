// SPDX-License-Identifier: Apache-2.0
// Initial values depend on seed, name and index alone; the compute copy is the rounded master.
#include "engine/parameter_store.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model_cases.hpp"
#include "model_problem.hpp"

namespace espalier::check {
namespace {

template <class T>
std::vector<double> initial_values(const ParameterTable& table, const std::string& name,
                                   uint64_t seed) {
  ParameterStore<T> store(table);
  store.initialise(seed);
  const ParameterSpec& p = table.find(name);
  const auto host = Kokkos::create_mirror_view_and_copy(
      Kokkos::HostSpace{}, Vec<Acc<T>>(store.master() + p.offset, p.size()));
  return std::vector<double>(host.data(), host.data() + p.size());
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
    for (int64_t i = 0; i < table.flat_size; ++i)
      ASSERT_EQ(static_cast<Acc<T>>(store.values()[i]), static_cast<Acc<T>>(T(store.master()[i])));
    for (int64_t i = 0; i < table.flat_size; ++i) store.master()[i] *= Acc<T>(1.01);
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

TEST(ModelSlots, PointAtTheTablesRows) {
  for (const auto& c : named_cases()) {
    const Blueprint b = make_blueprint(c.config, 1);
    const ModelSlots slots = make_slots(b.parameters, b.config.model);
    const ParameterTable& t = b.parameters;
    EXPECT_EQ(slots.token.offset, t.find("embedding.token.weight").offset);
    EXPECT_EQ(slots.output.offset,
              c.config.model.tie_embeddings ? slots.token.offset : t.find("output.weight").offset);
    EXPECT_EQ(slots.position.present(), t.contains("embedding.position.weight"));
    EXPECT_EQ(slots.final_norm.bias.present(), t.contains("final_norm.bias"));
    const LayerSlots& l = slots.layers.back();
    const std::string prefix = t.blocks[t.blocks.size() - 2].name + ".";
    const auto& qkv = t.find(prefix + "attention.qkv.weight");
    EXPECT_EQ(l.qkv.weight.offset, qkv.offset);
    EXPECT_EQ(l.qkv.weight.rows, qkv.shape[0]);
    EXPECT_EQ(l.qkv.weight.columns, qkv.shape[1]);
    EXPECT_EQ(l.qkv.bias.present(), c.config.model.bias);
    EXPECT_EQ(l.q_norm.weight.present(), c.config.model.qk_norm);
    EXPECT_EQ(l.mlp_norm.weight.present(), c.config.model.residual == Residual::sequential);
    EXPECT_EQ(l.down.weight.offset, t.find(prefix + "mlp.down.weight").offset);
  }
}

}  // namespace
}  // namespace espalier::check
