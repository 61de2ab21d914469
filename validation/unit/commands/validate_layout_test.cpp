// SPDX-License-Identifier: Apache-2.0
// The grammar of layouts, what they set in a deck, and which ones there are.
#include "commands/validate_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr const char* kDeck = R"(
[run]
steps = 100
[model]
vocab_size = 256
hidden_size = 32
num_layers = 4
num_heads = 4
[batch]
seq_length = 64
micro_batch_size = 1
global_batch_size = 8
[optimizer]
learning_rate = 1e-3
[schedule]
warmup_steps = 20
[data]
source = "random"
)";

std::string fault_of(const std::string& layouts) {
  try {
    parse_layouts(layouts);
  } catch (const DeckError& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::vector<std::string>& settings, const std::string& setting) {
  return std::count(settings.begin(), settings.end(), setting) == 1;
}

bool names(const std::vector<std::string>& settings, const std::string& key) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const std::string& s) { return s.rfind("grid." + key + "=", 0) == 0; });
}

TEST(ValidateLayout, ReadsFactorsInAnyOrder) {
  const auto layouts = parse_layouts("tp2, z3+dp4xtp2+sp, sh2xdp4+z1, zbxpp4+v2+rec=full, one");
  ASSERT_EQ(layouts.size(), 5U);
  EXPECT_EQ(layouts[0].tensor, 2);
  EXPECT_EQ(layouts[0].ranks(), 2);
  EXPECT_FALSE(layouts[0].zero_stage);
  EXPECT_EQ(layouts[1].name(), "dp4xtp2+z3+sp");
  EXPECT_EQ(layouts[1].ranks(), 8);
  EXPECT_EQ(layouts[2].name(), "dp4+z1+sh2");
  EXPECT_EQ(layouts[3].name(), "pp4+v2+zb+rec=full");
  EXPECT_EQ(layouts[3].schedule, "zero_bubble");
  EXPECT_EQ(layouts[3].folder(), "pp4-v2-zb-rec-full");
  EXPECT_EQ(layouts[4].name(), "one");
}

TEST(ValidateLayout, NamesAreLayouts) {
  for (const Layout& layout : enumerate_layouts(8, LayoutOptions::all)) {
    const auto again = parse_layouts(layout.name());
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].name(), layout.name());
    EXPECT_EQ(again[0].ranks(), layout.ranks());
  }
}

TEST(ValidateLayout, NamesEveryFactorThatIsNone) {
  const std::string text = fault_of("tp2,tq2+dp2,dp0,dp2xrec=some,tp,,tp2x2,dp99999999999");
  for (const char* part : {"\"tq2\" of \"tq2+dp2\" is no part of a layout", "\"dp0\" of \"dp0\"",
                           "\"rec=some\" of", "\"tp\" of \"tp\"", "\"\" of \"\"",
                           "\"2\" of \"tp2x2\"", "\"dp99999999999\"", "such as dp2xtp2+z1"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("\"tp2\" of"), std::string::npos) << text;
  EXPECT_NE(fault_of("dp2xtp2,tp2xdp2").find("dp2xtp2 is named twice"), std::string::npos);
}

TEST(ValidateLayout, SetsWhatDiffersFromTheDeck) {
  Config deck;
  const auto plain = layout_settings(parse_layouts("dp2xtp2")[0], deck);
  EXPECT_TRUE(holds(plain, "grid.data_parallel=2"));
  EXPECT_TRUE(holds(plain, "grid.tensor_parallel=2"));
  EXPECT_TRUE(holds(plain, "grid.pipeline_parallel=1"));
  EXPECT_EQ(plain.size(), 4U);
  const auto full = layout_settings(parse_layouts("dp4xtp2+z2+sh2+sp+rec=selective")[0], deck);
  for (const char* setting : {"grid.zero_stage=2", "grid.zero_shards=2",
                              "grid.sequence_parallel=true", "grid.recompute=selective"})
    EXPECT_TRUE(holds(full, setting)) << setting;
}

TEST(ValidateLayout, TakesBackWhatOneRankCannotHave) {
  Config deck;
  deck.grid.pipeline_parallel = 2;
  deck.grid.pipeline_schedule = PipelineSchedule::interleaved;
  deck.grid.virtual_stages = 2;
  deck.grid.stage_blocks = {1, 1, 1, 1};
  deck.grid.sequence_parallel = true;
  deck.grid.zero_stage = 3;
  deck.grid.zero_shards = 4;
  const auto one = layout_settings(reference_layout(), deck);
  for (const char* setting :
       {"grid.zero_stage=0", "grid.zero_shards=0", "grid.sequence_parallel=false",
        "grid.pipeline_schedule=\"1f1b\"", "grid.virtual_stages=0", "grid.stage_blocks=[]"})
    EXPECT_TRUE(holds(one, setting)) << setting;
  // What the deck has stays where the layout says nothing.
  const auto same = layout_settings(parse_layouts("pp2xdp4xtp2")[0], deck);
  for (const char* key : {"zero_stage", "zero_shards", "sequence_parallel", "pipeline_schedule",
                          "virtual_stages", "stage_blocks"})
    EXPECT_FALSE(names(same, key)) << key;
  EXPECT_TRUE(names(layout_settings(parse_layouts("pp2+gpipe")[0], deck), "stage_blocks"));
}

TEST(ValidateLayout, EnumeratesEveryLayoutOnce) {
  const auto zero = enumerate_layouts(4, LayoutOptions::zero);
  std::set<std::string> names;
  for (const Layout& layout : zero) {
    EXPECT_LE(layout.ranks(), 4);
    EXPECT_GE(layout.ranks(), 2);
    EXPECT_TRUE(names.insert(layout.name()).second) << layout.name();
  }
  // 2 and 3 ranks: one axis each, dp with 4 stages: 6 each. 4 ranks: tp4 pp4 dp4 (1 + 1 + 4),
  // pp2xtp2, pp2xdp2 and dp2xtp2 (1 + 4 + 4).
  EXPECT_EQ(zero.size(), 6U + 6U + 6U + 9U);
  EXPECT_EQ(names.count("dp2xtp2+z3"), 1U);
  names.clear();
  const auto all = enumerate_layouts(2, LayoutOptions::all);
  for (const Layout& layout : all) EXPECT_TRUE(names.insert(layout.name()).second);
  // tp2: sequence 2 x recompute 3; pp2: schedules 4 x 3; dp2: stages 4 x 3
  EXPECT_EQ(all.size(), 6U + 12U + 12U);
}

class ValidateLayoutDeck : public ::testing::Test {
 protected:
  ValidateLayoutDeck() { std::ofstream(path_) << kDeck; }
  ~ValidateLayoutDeck() override { std::filesystem::remove(path_); }
  Config config(const std::vector<std::string>& settings = {}) const {
    return require_deck({path_, settings, std::nullopt}).config;
  }
  std::string path_ = ::testing::TempDir() + "validate_layout_deck.toml";
};
TEST_F(ValidateLayoutDeck, AsksTheDeckWhatIsLegal) {
  const Config deck = config();
  EXPECT_TRUE(layout_faults(parse_layouts("dp2")[0], path_, {}, deck).empty());
  const auto faults = layout_faults(parse_layouts("tp3")[0], path_, {}, deck);
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].key, "grid.tensor_parallel");
  EXPECT_FALSE(layout_faults(parse_layouts("dp16")[0], path_, {}, deck).empty());
}

TEST_F(ValidateLayoutDeck, KeepsTheRatesOfTheFirstSteps) {
  const Config deck = config();
  const Config few = config(first_steps_settings(deck, 5));
  EXPECT_EQ(few.run.steps, 5);
  EXPECT_EQ(few.schedule.warmup_steps, 5);
  EXPECT_DOUBLE_EQ(few.optimizer.learning_rate / 5, deck.optimizer.learning_rate / 20);
  const Config more = config(first_steps_settings(deck, 50));
  EXPECT_EQ(more.schedule.warmup_steps, 20);
  EXPECT_EQ(more.optimizer.learning_rate, deck.optimizer.learning_rate);
  EXPECT_EQ(more.schedule.decay, DecayKind::constant);
  EXPECT_EQ(config(first_steps_settings(deck, 100)).schedule.decay, deck.schedule.decay);
}

}  // namespace
}  // namespace espalier
