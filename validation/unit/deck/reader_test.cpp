// SPDX-License-Identifier: Apache-2.0
// Reading: every type of value, files, and the form of faults. Faulty decks: validation/decks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "small_deck.hpp"

namespace espalier {
namespace {

TEST(Reader, ReadsEveryTypeOfValue) {
  const Config config = sound_config(R"(
[run]
directory = "out/ä b"
seed = 9223372036854775807
[model]
vocab_size = 300
hidden_size = 0x40
num_layers = 1_0
num_heads = 4
norm = "rmsnorm"
bias = false
rope_theta = 5e5
position = "rope"
[batch]
seq_length = 32
[optimizer]
weight_decay = 1   # an integer is a number
[numerics]
compute_type = "bf16"
[data]
train = [
  "a.tok",
  'b\c.tok',
]
)");
  EXPECT_EQ(config.run.directory, "out/ä b");
  EXPECT_EQ(config.run.seed, INT64_MAX);
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.model.num_layers, 10);
  EXPECT_EQ(config.model.norm, NormKind::rmsnorm);
  EXPECT_FALSE(config.model.bias);
  EXPECT_EQ(config.model.rope_theta, 5e5);
  EXPECT_EQ(config.optimizer.weight_decay, 1.0);
  EXPECT_EQ(config.numerics.compute_type, ElementType::bf16);
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"a.tok", "b\\c.tok"}));
}

TEST(Reader, LeavesDefaultsAsConfigHasThem) {
  const Config config = sound_config(small_deck());
  const Config fresh;
  EXPECT_EQ(config.optimizer.learning_rate, fresh.optimizer.learning_rate);
  EXPECT_EQ(config.grid.bucket_mib, fresh.grid.bucket_mib);
  EXPECT_EQ(config.monitor.validation_batches, fresh.monitor.validation_batches);
  EXPECT_EQ(config.deck_path, "deck.toml");
}

TEST(Reader, AcceptsSectionsInlineAndDotted) {
  const Config config = sound_config(
      "model = {vocab_size = 256, hidden_size = 64, num_layers = 2, num_heads = 4}\n"
      "batch.seq_length = 16\n[data]\nsource = \"random\"\n");
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.batch.seq_length, 16);
}

// Strings and comments of every form, with quotes, escapes and letters beyond ASCII inside.
TEST(Reader, AcceptsEveryFormOfString) {
  const std::string rest =
      "model.preset = \"gpt2-124m\"\nbatch.seq_length = 8\ndata.source = \"random\"\n";
  const std::vector<std::pair<std::string, std::string>> forms = {
      {R"("é \" # é")", "é \" # é"},
      {R"('é \' # "é')", "é \\"},
      {R"("""é "" é \""" """)", "é \"\" é \"\"\" "},
      {R"("""é""""")", "é\"\""},
      {R"('''é \''')", "é \\"},
      {"\"\"\"a\\\n   b é\"\"\" # é", "ab é"},
      {R"("\u00e9\U0001F333")", "é🌳"},
      {R"("")", "runs/deck"}};
  for (const auto& [form, meaning] : forms)
    EXPECT_EQ(sound_config("\xEF\xBB\xBF# é\nrun.directory = " + form + "\n" + rest).run.directory,
              meaning)
        << form;
}

TEST(Reader, RecordsOrigins) {
  const DeckResult result = parse_deck(
      "model.preset = \"llama-1b\"\nmodel.num_layers = 2\nbatch.seq_length = 32\n"
      "data.source = \"random\"\n",
      "deck.toml", {"run.seed=7"});
  ASSERT_TRUE(result.ok()) << fault_text(result);
  EXPECT_EQ(result.origins.at("run.seed"), "override");
  EXPECT_EQ(result.origins.at("model.num_layers"), "deck");
  EXPECT_EQ(result.origins.at("model.hidden_size"), "preset llama-1b");
  EXPECT_EQ(result.origins.at("model.head_dim"), "automatic");
  EXPECT_EQ(result.origins.at("optimizer.beta1"), "default");
}

TEST(Reader, ListsFaultsInFileOrderThenMissingThenOverrides) {
  const DeckResult result = parse_deck(
      "[run]\nsteps = 0\nsped = 1\n[model]\nvocab_size = 1\nhidden_size = 64\n"
      "num_layers = 1\n[data]\nsource = \"random\"\n",
      "d.toml", {"run.seed=-1"});
  ASSERT_EQ(result.faults.size(), 6u) << fault_text(result);
  EXPECT_EQ(result.faults[0].line, 2);
  EXPECT_EQ(result.faults[1].line, 3);
  EXPECT_EQ(result.faults[2].line, 5);
  EXPECT_EQ(result.faults[3].file, "--set");
  EXPECT_EQ(result.faults[4].key, "model.num_heads");
  EXPECT_EQ(result.faults[5].key, "batch.seq_length");
}

TEST(Reader, FaultTextHasPlaceKeyValueRuleAndSuggestion) {
  const Fault fault{
      "deck.toml", 14, 1, "grid.tensor_parallel", "3", "num_kv_heads = 8 is not a multiple of 3",
      "try 2 or 4"};
  EXPECT_EQ(fault.text(),
            "deck.toml:14:1: grid.tensor_parallel = 3 (num_kv_heads = 8 is not a multiple of 3); "
            "try 2 or 4");
}

TEST(Reader, FaultListCounts) {
  const Fault fault{"d", 1, 1, "a.b", "", "is not a key", ""};
  EXPECT_EQ(fault_list({fault}), "d:1:1: a.b is not a key\n1 fault; nothing was allocated.");
  EXPECT_NE(fault_list({fault, fault}).find("\n2 faults; nothing"), std::string::npos);
}

TEST(Reader, ReadsAFileAndSaysWhenItCannot) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("espalier-deck-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = (folder / "my run.toml").string();
  std::ofstream(path) << small_deck();
  const DeckResult good = read_deck({path, {}, std::nullopt});
  EXPECT_EQ(fault_text(good), "");
  EXPECT_EQ(good.config.run.directory, "runs/my run");
  EXPECT_EQ(require_deck({path, {}, std::nullopt}).config.run.directory, "runs/my run");

  const DeckResult missing = read_deck({path + "x", {}, std::nullopt});
  EXPECT_EQ(fault_text(missing), path +
                                     "x: cannot read the deck (No such file or directory); "
                                     "give the path of a TOML file\n");
  std::ofstream(path) << "#" << std::string(5 << 20, 'x');
  EXPECT_NE(fault_text(read_deck({path, {}, std::nullopt})).find("larger than 4 MiB"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Reader, RequireDeckThrowsAllFaultsWithTheExitCodeOfDecks) {
  try {
    require_deck({"/no/such/deck.toml", {}, std::nullopt});
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::deck);
    EXPECT_NE(std::string(error.what()).find("1 fault; nothing was allocated."), std::string::npos);
  }
}

}  // namespace
}  // namespace espalier
