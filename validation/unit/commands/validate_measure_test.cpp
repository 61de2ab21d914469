// SPDX-License-Identifier: Apache-2.0
// Reading runs and comparisons, the limits, the verdict, and the table's three forms.
#include "commands/validate_measure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace espalier {
namespace {

std::string file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

std::string step(int64_t number, double seconds, double bytes, const std::string& hash) {
  return nlohmann::json({{"kind", "step"},
                         {"step", number},
                         {"loss", 5.0},
                         {"step_seconds", seconds},
                         {"token_hash", hash},
                         {"communication", {{"dp", {{"bytes", bytes}, {"exposed_seconds", 0.5}}}}}})
             .dump() +
         "\n";
}

const std::string kEnd = "{\"kind\":\"end\",\"peak_memory_bytes\":1234}\n";

TEST(ValidateMeasure, ReadsARunAndLeavesOutTheFirstStep) {
  const std::string path = file(
      "measure.jsonl", step(1, 100, 1e9, "a") + step(2, 2, 10, "b") + step(3, 4, 30, "c") + kEnd);
  const RunMeasure m = read_measure(path, 3);
  EXPECT_EQ(m.token_hashes, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(m.step_seconds, 3.0);
  EXPECT_EQ(m.peak_memory_bytes, 1234);
  EXPECT_EQ(m.traffic.at("dp").bytes, 20.0);
  EXPECT_EQ(m.traffic.at("dp").exposed_seconds, 0.5);
  EXPECT_EQ(read_measure(file("one.jsonl", step(1, 7, 8, "a") + kEnd), 1).step_seconds, 7.0);
}

TEST(ValidateMeasure, RefusesARunThatIsNotWhole) {
  EXPECT_THROW(read_measure(file("short.jsonl", step(1, 1, 1, "a")), 2), DataError);
  EXPECT_THROW(read_measure(file("broken.jsonl", step(1, 1, 1, "a") + "{\"kind\":"), 1), DataError);
  EXPECT_THROW(read_measure(::testing::TempDir() + "none.jsonl", 1), DataError);
}

const char* const kCompared = R"({"loss": 1e-7, "gradient_norm": "inf", "update": 0.125,
  "unequal_elements": 3, "tensors": [
  {"name": "layers.0.mlp.norm.weight", "update_difference": 0.25},
  {"name": "layers.0.attention.qkv.bias", "update_difference": 0.75},
  {"name": "output.weight", "update_difference": 0}]})";

TEST(ValidateMeasure, ReadsAComparison) {
  RunMeasure a, b;
  a.token_hashes = {"x", "y", "z"};
  b.token_hashes = {"x", "q", "z"};
  const LayoutDifference d = read_difference(file("compare.json", kCompared), a, b);
  EXPECT_EQ(d.loss, 1e-7);
  EXPECT_TRUE(std::isinf(d.gradient_norm));
  EXPECT_EQ(d.update, 0.125);
  EXPECT_EQ(d.unequal_elements, 3);
  EXPECT_EQ(d.unequal_tokens, 1);
  EXPECT_EQ(d.worst_tensor, "layers.0.attention.qkv.bias");
  EXPECT_EQ(d.worst_update, 0.75);
  EXPECT_EQ(d.worst_quiet_update, 0.25);
  EXPECT_THROW(read_difference(file("compare.json", "{}"), a, b), DataError);
  EXPECT_THROW(read_difference(file("compare.json", "{\"loss\": null"), a, b), DataError);
}

TEST(ValidateMeasure, LimitsFollowTypeAndDepth) {
  Config c;
  c.model.num_layers = 7;
  EXPECT_EQ(make_limits(c, std::nullopt).loss, 1e-5);
  EXPECT_FALSE(make_limits(c, std::nullopt).every_bit);
  EXPECT_EQ(make_limits(c, 1e-3).loss, 1e-3);
  c.numerics.compute_type = ElementType::bf16;
  const double shallow = make_limits(c, std::nullopt).loss;
  EXPECT_DOUBLE_EQ(shallow, std::ldexp(1.0, -8) * 4.0 / 2);
  c.model.num_layers = 31;
  EXPECT_DOUBLE_EQ(make_limits(c, std::nullopt).loss, 2 * shallow);
  c.numerics.compute_type = ElementType::fp16;
  EXPECT_DOUBLE_EQ(make_limits(c, std::nullopt).loss, shallow / 4);
  c.numerics.reproducible = true;
  EXPECT_TRUE(make_limits(c, std::nullopt).every_bit);
  EXPECT_THROW(make_limits(c, 1e-3), DeckError);
}

TEST(ValidateMeasure, JudgesEachNumber) {
  Config c;
  const ValidationLimits limits = make_limits(c, std::nullopt);
  const auto verdict = [&](auto change) {
    LayoutDifference d;
    d.worst_tensor = "output.weight";
    change(d);
    return judge(d, limits);
  };
  EXPECT_EQ(verdict([](LayoutDifference& d) { d.loss = 0.99e-5; }), "");
  EXPECT_NE(verdict([](LayoutDifference& d) { d.loss = 1.01e-5; }).find("the loss differs by"),
            std::string::npos);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(verdict([nan](LayoutDifference& d) { d.loss = nan; }), "");
  EXPECT_NE(verdict([](LayoutDifference& d) { d.loss = HUGE_VAL; }), "");
  EXPECT_NE(verdict([](LayoutDifference& d) { d.gradient_norm = 2e-4; }), "");
  EXPECT_NE(verdict([](LayoutDifference& d) { d.update = 0.02; }), "");
  EXPECT_NE(verdict([](LayoutDifference& d) { d.worst_update = 0.6; }).find("output.weight"),
            std::string::npos);
  EXPECT_EQ(verdict([](LayoutDifference& d) { d.unequal_tokens = 2; }), "other tokens in 2 steps");
  EXPECT_EQ(verdict([](LayoutDifference& d) { d.unequal_elements = 100; }), "");  // not every bit
}

TEST(ValidateMeasure, InSixteenBitsNoiseIsNotBlamed) {
  Config c;
  c.numerics.compute_type = ElementType::bf16;
  LayoutDifference d;
  d.worst_update = 0.9;
  d.worst_quiet_update = 0.1;
  EXPECT_EQ(judge(d, make_limits(c, std::nullopt)), "");
  d.worst_quiet_update = 0.6;
  EXPECT_NE(judge(d, make_limits(c, std::nullopt)), "");
}

TEST(ValidateMeasure, InTheReproducibleModeOneBitFails) {
  ValidationLimits limits;
  limits.every_bit = true;
  LayoutDifference d;
  EXPECT_EQ(judge(d, limits), "");
  d.unequal_elements = 1;
  EXPECT_NE(judge(d, limits), "");
  d = {};
  d.loss = 1e-300;
  EXPECT_NE(judge(d, limits), "");
  d = {};
  d.gradient_norm = 1e-300;
  EXPECT_NE(judge(d, limits), "");
}

ValidationTable example() {
  ValidationTable t;
  t.deck = "a<b>.toml";
  t.launcher = "mpiexec -n {ranks}";
  t.compute_type = "fp32";
  t.steps = 5;
  t.limits = make_limits(Config(), std::nullopt);
  t.reference.layout = "one";
  t.reference.step_seconds = 0.5;
  ValidationRow good;
  good.layout = "dp2xtp2+z1";
  good.ranks = 4;
  good.passed = true;
  good.step_seconds = 0.25;
  good.traffic = {{"dp", {2e6, 0.001}}, {"tp", {5e6, 0.002}}};
  good.difference = LayoutDifference();
  good.difference->gradient_norm = HUGE_VAL;
  ValidationRow bad;
  bad.layout = "pp2";
  bad.reason = "exit code 3\nerror: <no> host";
  bad.exit_code = 3;
  bad.log = "w/pp2.log";
  t.rows = {good, bad};
  return t;
}

TEST(ValidateMeasure, TheTableIsText) {
  const std::string text = validation_text(example());
  for (const char* part : {"dp2xtp2+z1", "dp 2, tp 5", "dp 1, tp 2", "250.0 ms", "pass",
                           "FAIL pp2: exit code 3\n    error: <no> host\n    log: w/pp2.log",
                           "1 of 2 layouts FAIL; allowed: loss 1e-05"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ValidateMeasure, TheTableIsJson) {
  const auto json = nlohmann::json::parse(validation_json(example()));
  EXPECT_EQ(json.at("format"), "espalier validation");
  EXPECT_EQ(json.at("failures"), 1);
  EXPECT_EQ(json.at("layouts").size(), 2U);
  EXPECT_EQ(json.at("layouts")[0].at("difference").at("gradient_norm"), "inf");
  EXPECT_EQ(json.at("layouts")[0].at("communication").at("tp").at("bytes"), 5e6);
  EXPECT_TRUE(json.at("layouts")[1].at("difference").is_null());
  EXPECT_EQ(json.at("layouts")[1].at("exit_code"), 3);
}

TEST(ValidateMeasure, ThePageEscapesAndStandsAlone) {
  const std::string html = validation_page(example());
  EXPECT_NE(html.find("a&lt;b&gt;.toml"), std::string::npos);
  EXPECT_NE(html.find("error: &lt;no&gt; host"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"FAIL\">FAIL</td>"), std::string::npos);
  for (const char* part : {"<no>", "a<b>", "://", "<script", "src="})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace espalier
