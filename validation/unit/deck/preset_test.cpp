// SPDX-License-Identifier: Apache-2.0
// Presets: each is sound, survives its effective deck, and has the published count of parameters.
#include "deck/presets.hpp"

#include <gtest/gtest.h>

#include <map>

#include "small_deck.hpp"

namespace espalier {
namespace {

std::string preset_deck(const std::string& name, const std::string& more = "") {
  return "model.preset = \"" + name + "\"\nbatch.seq_length = 1024\ndata.source = \"random\"\n" +
         more;
}

// Counted from the shape by hand here, not by the program's parameter table.
int64_t count_parameters(const Config& config) {
  const ModelConfig& m = config.model;
  const int64_t queries = m.num_heads * m.head_dim;
  const int64_t keys = m.num_kv_heads * m.head_dim;
  const bool gated = m.activation == Activation::swiglu;
  const int64_t norm = m.hidden_size * (m.norm == NormKind::layernorm && m.norm_bias ? 2 : 1);
  int64_t block = m.hidden_size * (queries + 2 * keys) + queries * m.hidden_size +
                  (gated ? 3 : 2) * m.hidden_size * m.intermediate_size +
                  norm * (m.residual == Residual::sequential ? 2 : 1);
  if (m.bias) block += queries + 2 * keys + m.hidden_size + m.intermediate_size + m.hidden_size;
  const int64_t positions =
      m.position == PositionKind::learned ? config.batch.seq_length * m.hidden_size : 0;
  return m.vocab_size * m.hidden_size * (m.tie_embeddings ? 1 : 2) + positions +
         m.num_layers * block + norm;
}

TEST(Presets, HaveThePublishedCountOfParameters) {
  const std::map<std::string, int64_t> published = {
      {"gpt2-124m", 124439808},   {"gpt2-355m", 354823168},  {"gpt2-774m", 774030080},
      {"gpt2-1558m", 1557611200}, {"llama-1b", 1235814400},  {"llama-8b", 8030261248},
      {"llama-70b", 70553706496}, {"cohere-8b", 8028033024}, {"cohere-35b", 34980831232}};
  EXPECT_EQ(presets().size(), published.size());
  for (const auto& [name, count] : published)
    EXPECT_EQ(count_parameters(sound_config(preset_deck(name))), count) << name;
}

TEST(Presets, EffectiveDecksReadBack) {
  for (const Preset& preset : presets()) {
    const DeckResult first = parse_deck(preset_deck(preset.name), "deck.toml");
    ASSERT_TRUE(first.ok()) << preset.name << "\n" << fault_text(first);
    EXPECT_TRUE(first.warnings.empty()) << preset.name;
    const DeckResult second = parse_deck(effective_deck(first), "deck.toml");
    ASSERT_TRUE(second.ok()) << preset.name << "\n" << fault_text(second);
    EXPECT_TRUE(second.warnings.empty()) << preset.name << second.warnings[0].text();
    EXPECT_TRUE(have_same_values(first.config, second.config)) << preset.name;
    EXPECT_EQ(second.config.model.preset, preset.name);
    EXPECT_EQ(second.origins.at("model.hidden_size"), "deck");
  }
}

TEST(Presets, NameOnlyKeysOfTheModelAndLegalValues) {
  for (const Preset& preset : presets())
    for (const auto& [name, value] : preset.values) {
      const size_t index = key_index("model", name);
      ASSERT_NE(index, kNoKey) << preset.name << " " << name;
      Config config;
      key_table()[index].set(config, value);
      EXPECT_EQ(key_table()[index].get(config), value) << preset.name << " " << name;
    }
}

TEST(Presets, ExplicitKeysWinWhereverTheyStand) {
  const Config config = sound_config("model.num_layers = 3\n" + preset_deck("llama-8b"),
                                     {"model.tie_embeddings=true"});
  EXPECT_EQ(config.model.num_layers, 3);
  EXPECT_TRUE(config.model.tie_embeddings);
  EXPECT_EQ(config.model.hidden_size, 4096);
}

TEST(Presets, DerivedSizesFollowAnExplicitWidth) {
  const Config config = sound_config(preset_deck("gpt2-124m", "model.hidden_size = 384\n"));
  EXPECT_EQ(config.model.head_dim, 32);
  EXPECT_EQ(config.model.intermediate_size, 1536);
}

TEST(Presets, FamiliesDifferWhereTheyShould) {
  const Config cohere = sound_config(preset_deck("cohere-35b"));
  EXPECT_EQ(cohere.model.residual, Residual::parallel);
  EXPECT_EQ(cohere.model.rope_style, RopeStyle::interleaved);
  EXPECT_EQ(cohere.model.logit_scale, 0.0625);
  EXPECT_FALSE(cohere.model.norm_bias);
  EXPECT_TRUE(cohere.model.tie_embeddings);
  const Config llama = sound_config(preset_deck("llama-1b"));
  EXPECT_EQ(llama.model.rope_scaling, RopeScaling::llama3);
  EXPECT_EQ(llama.model.rope_scaling_factor, 32.0);
  EXPECT_EQ(llama.model.norm, NormKind::rmsnorm);
  EXPECT_EQ(llama.model.head_dim, 64);
}

}  // namespace
}  // namespace espalier
