// SPDX-License-Identifier: Apache-2.0
// The table itself, and that the reference and docs/deck.md are printed from it.
#include "deck/key_table.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "deck/corpus_deck.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

std::string read_doc(const std::string& name) {
  std::ifstream file(std::string(ESPALIER_DOCS) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(KeyTable, EveryRowIsComplete) {
  std::set<std::string> sections;
  for (const Section& section : deck_sections()) sections.insert(section.name);
  std::set<std::string> seen;
  for (const Key& key : key_table()) {
    const std::string name = key.full_name();
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_EQ(sections.count(key.section), 1u) << name;
    EXPECT_FALSE(key.help.empty()) << name;
    EXPECT_EQ(key.help.back(), '.') << name;
    EXPECT_EQ(key.type == KeyType::choice, !key.choices.empty()) << name;
    EXPECT_EQ(key_index(name), static_cast<size_t>(&key - key_table().data())) << name;
    const bool is_number = key.type == KeyType::integer || key.type == KeyType::real ||
                           key.type == KeyType::integer_list || key.type == KeyType::range_list;
    EXPECT_EQ(is_number, !key.range.text().empty()) << name;
  }
  EXPECT_EQ(key_index("model.nothing"), kNoKey);
}

TEST(KeyTable, DefaultsAreLegalUnlessRequired) {
  for (const Key& key : key_table()) {
    const KeyValue value = key.fallback;
    if (key.presence == Presence::required) continue;
    if (key.type == KeyType::integer) {
      EXPECT_TRUE(key.range.contains(static_cast<double>(std::get<int64_t>(value))))
          << key.full_name();
    } else if (key.type == KeyType::real) {
      EXPECT_TRUE(key.range.contains(std::get<double>(value))) << key.full_name();
    }
  }
}

// Setting one key changes that key and no other, for every key.
TEST(KeyTable, EveryRowHasAMemberOfItsOwn) {
  for (const Key& key : key_table()) {
    KeyValue other = key.fallback;
    if (auto* v = std::get_if<bool>(&other)) *v = !*v;
    if (auto* v = std::get_if<int64_t>(&other)) *v += 1;
    if (auto* v = std::get_if<double>(&other)) *v += 0.5;
    if (auto* v = std::get_if<std::vector<std::string>>(&other)) v->push_back("x");
    if (auto* v = std::get_if<std::vector<int64_t>>(&other)) v->push_back(1);
    if (auto* v = std::get_if<std::vector<IntegerRange>>(&other)) v->push_back({1, 2});
    if (auto* v = std::get_if<std::string>(&other))
      *v = key.type == KeyType::choice ? key.choices.back() : "x";
    if (key.type == KeyType::choice && key.choices.back() == toml_text(key.fallback))
      other = key.choices.front();
    Config config;
    key.set(config, other);
    EXPECT_EQ(key.get(config), other) << key.full_name();
    for (const Key& bystander : key_table()) {
      if (&bystander == &key) continue;
      EXPECT_EQ(bystander.get(config), bystander.fallback)
          << key.full_name() << " changes " << bystander.full_name();
    }
  }
}

TEST(KeyTable, EveryWordOfAChoiceHasAMeaningOfItsOwn) {
  for (const Key& key : key_table())
    for (const std::string& word : key.choices) {
      Config config;
      key.set(config, word);
      EXPECT_EQ(key.get(config), KeyValue(word)) << key.full_name();
    }
}

TEST(KeyTable, RealsRoundTripAsToml) {
  EXPECT_EQ(toml_text(KeyValue(65536.0)), "65536.0");
  EXPECT_EQ(toml_text(KeyValue(1e-5)), "1e-05");
  EXPECT_EQ(toml_text(KeyValue(1e300)), "1e+300");
  EXPECT_EQ(toml_text(KeyValue(0.1 + 0.2)), "0.30000000000000004");
  EXPECT_EQ(toml_text(KeyValue(-0.0)), "-0.0");
}

TEST(KeyTable, StringsAreEscaped) {
  EXPECT_EQ(toml_quote("a\"b\\c\n\x1b\x7fä"), "\"a\\\"b\\\\c\\u000A\\u001B\\u007Fä\"");
}

TEST(Reference, DocsDeckMdIsPrintedFromTheTable) {
  EXPECT_EQ(read_doc("deck.md"), deck_reference_markdown())
      << "run: espalier deck --markdown > docs/deck.md";
}

TEST(Reference, DocsCorpusDeckMdIsPrintedFromTheTable) {
  EXPECT_EQ(read_doc("corpus-deck.md"), corpus_deck_reference_markdown())
      << "run: espalier deck --corpus --markdown > docs/corpus-deck.md";
}

TEST(Reference, NamesEveryKeyWithItsHelp) {
  const std::string text = deck_reference();
  for (const Key& key : key_table()) {
    EXPECT_NE(text.find("  " + key.name + " = "), std::string::npos) << key.full_name();
    EXPECT_NE(text.find(key.help), std::string::npos) << key.full_name();
  }
  EXPECT_EQ(deck_reference("grid").find("[batch]"), std::string::npos);
  EXPECT_THROW(deck_reference("grit"), DeckError);
}

TEST(Reference, DocsExitCodesNamesEveryCode) {
  const std::string text = read_doc("exit-codes.md");
  for (const auto& [code, word] :
       std::vector<std::pair<ExitCode, std::string>>{{ExitCode::success, "success"},
                                                     {ExitCode::internal, "internal"},
                                                     {ExitCode::deck, "deck"},
                                                     {ExitCode::launch, "launch"},
                                                     {ExitCode::data, "data"},
                                                     {ExitCode::numerical, "numerical"},
                                                     {ExitCode::requeue, "requeue"}})
    EXPECT_NE(text.find("| " + std::to_string(static_cast<int>(code)) + " | " + word + " |"),
              std::string::npos)
        << word;
}

}  // namespace
}  // namespace espalier
