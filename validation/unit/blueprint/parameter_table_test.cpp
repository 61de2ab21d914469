// SPDX-License-Identifier: Apache-2.0
// The parameter table: published counts, the layout of the flat buffers, roles and decay.
#include "blueprint/parameter_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/error.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

Config config_of(const std::string& text) {
  const DeckResult result = parse_deck(text, "test.toml");
  EXPECT_TRUE(result.ok()) << fault_list(result.faults);
  return result.config;
}

Config preset(const std::string& name, const std::string& more = "") {
  return config_of("model.preset = \"" + name +
                   "\"\nbatch.seq_length = 1024\ndata.source = \"random\"\n" + more);
}

/// A small sequential model with everything that can have a parameter.
Config everything() {
  return config_of(R"(
      data.source = "random"
      batch.seq_length = 24
      [model]
      vocab_size = 37
      hidden_size = 20
      intermediate_size = 28
      num_layers = 3
      num_heads = 4
      num_kv_heads = 2
      head_dim = 6
      qk_norm = true
      tie_embeddings = false
      )");
}

struct Published {
  const char* preset;
  int64_t count;
};
constexpr Published kPublished[] = {
    {"gpt2-124m", 124439808},   {"gpt2-355m", 354823168}, {"gpt2-774m", 774030080},
    {"gpt2-1558m", 1557611200}, {"llama-1b", 1235814400}, {"llama-8b", 8030261248},
    {"llama-70b", 70553706496},
};

TEST(ParameterTable, PresetsHaveThePublishedCounts) {
  for (const auto& p : kPublished)
    EXPECT_EQ(make_parameter_table(preset(p.preset)).parameter_count, p.count) << p.preset;
}

// Counted by hand for a cohere-like block: one norm without bias, fused query-key-value, gated MLP.
TEST(ParameterTable, CohereBlockByHand) {
  const int64_t hidden = 4096, inner = 14336, vocab = 256000, head = 128;
  const int64_t block = hidden + hidden * (32 + 2 * 8) * head + 32 * head * hidden +
                        2 * hidden * inner + inner * hidden;
  EXPECT_EQ(make_parameter_table(preset("cohere-8b")).parameter_count,
            vocab * hidden + 32 * block + hidden);
}

TEST(ParameterTable, NamesAndShapesOfEverything) {
  const ParameterTable t = make_parameter_table(everything());
  const auto shape = [&](const char* name) { return t.find(name).shape; };
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shape("embedding.token.weight"), (Shape{37, 20}));
  EXPECT_EQ(shape("embedding.position.weight"), (Shape{24, 20}));
  EXPECT_EQ(shape("layers.2.attention.norm.weight"), (Shape{20}));
  EXPECT_EQ(shape("layers.0.attention.norm.bias"), (Shape{20}));
  EXPECT_EQ(shape("layers.0.attention.qkv.weight"), (Shape{48, 20}));
  EXPECT_EQ(shape("layers.0.attention.qkv.bias"), (Shape{48}));
  EXPECT_EQ(shape("layers.0.attention.q_norm.weight"), (Shape{6}));
  EXPECT_EQ(shape("layers.0.attention.k_norm.bias"), (Shape{6}));
  EXPECT_EQ(shape("layers.1.attention.output.weight"), (Shape{20, 24}));
  EXPECT_EQ(shape("layers.0.mlp.norm.weight"), (Shape{20}));
  EXPECT_EQ(shape("layers.0.mlp.up.weight"), (Shape{28, 20}));
  EXPECT_EQ(shape("layers.0.mlp.down.weight"), (Shape{20, 28}));
  EXPECT_EQ(shape("layers.0.mlp.down.bias"), (Shape{20}));
  EXPECT_EQ(shape("final_norm.weight"), (Shape{20}));
  EXPECT_EQ(shape("output.weight"), (Shape{37, 20}));
  EXPECT_EQ(t.parameters.size(), 2u + 3u * 16u + 3u);
  EXPECT_THROW(t.find("layers.3.mlp.up.weight"), InternalError);
  EXPECT_FALSE(t.contains("layers.0.mlp.gate_up.weight"));
}

TEST(ParameterTable, KeysRemoveTheirTensors) {
  Config c = everything();
  c.model.bias = false;
  c.model.norm = NormKind::rmsnorm;
  c.model.position = PositionKind::rope;
  c.model.activation = Activation::swiglu;
  c.model.residual = Residual::parallel;
  c.model.tie_embeddings = true;
  c.model.qk_norm = false;
  std::set<std::string> names;
  for (const auto& p : make_parameter_table(c).parameters) names.insert(p.name);
  std::set<std::string> expected = {"embedding.token.weight", "final_norm.weight"};
  for (const std::string layer : {"layers.0.", "layers.1.", "layers.2."})
    for (const char* name : {"attention.norm.weight", "attention.qkv.weight",
                             "attention.output.weight", "mlp.gate_up.weight", "mlp.down.weight"})
      expected.insert(layer + name);
  EXPECT_EQ(names, expected);
  c.model.norm = NormKind::layernorm;
  c.model.norm_bias = false;
  EXPECT_EQ(make_parameter_table(c).parameters.size(), expected.size());
}

std::vector<Config> all_configs() {
  std::vector<Config> configs = {everything()};
  for (const auto& p : kPublished) configs.push_back(preset(p.preset));
  configs.push_back(preset("cohere-35b"));
  return configs;
}

TEST(ParameterTable, OffsetsAreAlignedAndDisjoint) {
  for (const Config& c : all_configs()) {
    const ParameterTable t = make_parameter_table(c);
    int64_t next = 0, count = 0;
    std::set<std::string> names;
    for (const auto& p : t.parameters) {
      EXPECT_EQ(p.offset % kParameterAlignment, 0) << p.name;
      EXPECT_GE(p.offset, next) << p.name;
      EXPECT_LT(p.offset - next, kParameterAlignment) << p.name;  // no more padding than needed
      next = p.offset + p.size();
      count += p.size();
      EXPECT_TRUE(names.insert(p.name).second) << p.name << " occurs twice";
    }
    EXPECT_EQ(count, t.parameter_count);
    EXPECT_GE(t.flat_size, next);
    EXPECT_LT(t.flat_size - next, kParameterAlignment);
    EXPECT_EQ(t.flat_size % kParameterAlignment, 0);
  }
}

std::vector<std::string> block_names(const Config& c) {
  std::vector<std::string> names = {"embedding"};
  if (c.model.position == PositionKind::learned) names.push_back("embedding.position");
  for (int64_t layer = 0; layer < c.model.num_layers; ++layer)
    names.push_back("layers." + std::to_string(layer));
  names.push_back("final_norm");
  if (!c.model.tie_embeddings) names.push_back("output");
  return names;
}

/// The block that holds a parameter of that name; the longest name that it begins with.
std::string block_of(const std::string& parameter, const std::vector<std::string>& blocks) {
  std::string found;
  for (const std::string& b : blocks)
    if (parameter.rfind(b + ".", 0) == 0 && b.size() > found.size()) found = b;
  return found;
}

TEST(ParameterTable, BlocksCoverAllInOrder) {
  for (const Config& c : all_configs()) {
    const ParameterTable t = make_parameter_table(c);
    const std::vector<std::string> names = block_names(c);
    ASSERT_EQ(t.blocks.size(), names.size());
    int64_t next = 0;
    size_t held = 0;
    for (size_t i = 0; i < names.size(); ++i) {
      const BlockSpan& b = t.blocks[i];
      EXPECT_EQ(b.name, names[i]);
      EXPECT_EQ(b.chunk, 0);
      EXPECT_EQ(b.layer, b.kind == BlockKind::layer ? std::stoll(b.name.substr(7)) : -1);
      EXPECT_EQ(b.offset, next) << b.name;
      EXPECT_GT(b.size, 0) << b.name;
      next = b.offset + b.size;
      for (const auto& p : t.parameters) {
        if (block_of(p.name, names) != b.name) continue;
        ++held;
        EXPECT_GE(p.offset, b.offset) << p.name;
        EXPECT_LE(p.offset + p.size(), next) << p.name;
      }
    }
    EXPECT_EQ(held, t.parameters.size());
    EXPECT_EQ(next, t.flat_size);
  }
}

TEST(ParameterTable, DecayFollowsTheDeckKeys) {
  for (int mask = 0; mask < 8; ++mask) {
    Config c = everything();
    c.optimizer.decay_norms = (mask & 1) != 0;
    c.optimizer.decay_biases = (mask & 2) != 0;
    c.optimizer.decay_embeddings = (mask & 4) != 0;
    for (const auto& p : make_parameter_table(c).parameters) {
      // By the name alone, so that a wrong role in the table shows.
      const bool is_norm = p.name.find("norm.") != std::string::npos;
      const bool is_bias = !is_norm && p.name.find(".bias") != std::string::npos;
      const bool is_embedding = p.name.rfind("embedding.", 0) == 0 || p.name == "output.weight";
      const bool expected = is_norm        ? c.optimizer.decay_norms
                            : is_bias      ? c.optimizer.decay_biases
                            : is_embedding ? c.optimizer.decay_embeddings
                                           : true;
      EXPECT_EQ(p.decay, expected) << p.name;
    }
  }
}

TEST(ParameterTable, InitialisersByKind) {
  Config c = everything();
  c.model.init_std = 0.05;
  for (const bool scaled : {true, false}) {
    c.model.init_scale_residual = scaled;
    const double residual = scaled ? 0.05 / std::sqrt(6.0) : 0.05;  // sqrt(2 * 3 layers)
    for (const auto& p : make_parameter_table(c).parameters) {
      const bool is_bias = p.name.find(".bias") != std::string::npos;
      const bool is_norm = p.name.find("norm.") != std::string::npos;
      const auto expected = is_bias   ? Initializer::zeros
                            : is_norm ? Initializer::ones
                                      : Initializer::normal;
      EXPECT_EQ(p.initializer, expected) << p.name;
      if (expected != Initializer::normal) continue;
      const bool writes_to_stream = p.name.find("attention.output") != std::string::npos ||
                                    p.name.find("mlp.down") != std::string::npos;
      EXPECT_DOUBLE_EQ(p.init_std, writes_to_stream ? residual : 0.05) << p.name;
    }
  }
}

// A layer's rows do not depend on what else the model holds: its initial values neither, since they
// come from seed, name and index alone.
TEST(ParameterTable, ALayersRowsAreTheSameInADeeperModel) {
  Config shallow = everything(), deep = everything();
  shallow.model.init_scale_residual = deep.model.init_scale_residual = false;
  deep.model.num_layers = 5;
  const ParameterTable a = make_parameter_table(shallow), b = make_parameter_table(deep);
  for (const auto& p : a.parameters) {
    const auto& q = b.find(p.name);
    EXPECT_EQ(p.shape, q.shape);
    EXPECT_EQ(p.init_std, q.init_std);
    EXPECT_EQ(p.initializer, q.initializer);
  }
}

}  // namespace
}  // namespace espalier
