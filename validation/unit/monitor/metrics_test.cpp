// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl: every line valid JSON with the documented fields; what happens to files.
#include "monitor/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace espalier {
namespace {

using Json = nlohmann::json;

StepMetrics some_step() {
  StepMetrics m;
  m.step = 7;
  m.loss = 2.5;
  m.gradient_norm = 0.75;
  m.learning_rate = 3e-4;
  m.tokens = 4000;
  m.consumed_tokens = 28000;
  m.step_seconds = 0.5;
  m.position = 56;
  m.padding = 11;
  m.attention_imbalance = 1.25;
  m.token_hash = 0x00ab54a98ceb1f0aull;
  m.communication["dp"] = {1024, 3, 0.25, 0.125};
  m.stage_seconds = {0.25, 0.5};
  m.pipeline_bubble = 0.125;
  m.seconds_by_part["matmul"] = 0.375;
  return m;
}

std::string temporary(const std::string& name) {
  const std::string path = testing::TempDir() + "/espalier_metrics_" + name;
  std::filesystem::remove(path);
  return path;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Metrics, StepLineHasEveryField) {
  const Json json = Json::parse(metrics_line(some_step()));
  EXPECT_EQ(json["kind"], "step");
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"], 2.5);
  EXPECT_EQ(json["learning_rate"], 3e-4);
  EXPECT_EQ(json["skipped"], false);
  EXPECT_EQ(json["token_hash"], "00ab54a98ceb1f0a");
  EXPECT_EQ(json["communication"]["dp"]["bytes"], 1024);
  EXPECT_EQ(json["communication"]["dp"]["exposed_seconds"], 0.125);
  EXPECT_EQ(json["seconds_by_part"]["matmul"], 0.375);
  for (const char* key :
       {"gradient_norm", "loss_scale", "tokens", "consumed_tokens", "step_seconds",
        "elapsed_seconds", "tokens_per_second", "model_flops_per_second", "mfu",
        "data_wait_seconds", "memory_bytes", "peak_memory_bytes"})
    EXPECT_TRUE(json[key].is_number()) << key;
  EXPECT_EQ(json["stage_seconds"], Json::array({0.25, 0.5}));
  EXPECT_EQ(json["pipeline_bubble"], 0.125);
  EXPECT_EQ(json["position"], 56);
  EXPECT_EQ(json["padding"], 11);
  EXPECT_EQ(json["attention_imbalance"], 1.25);
  EXPECT_EQ(json.size(), 25u);
}

TEST(Metrics, SkippedPositionsStandWhereTheyWereSkipped) {
  StepMetrics m = some_step();
  m.skipped_positions = {{5, 9}, {70, 90}};
  EXPECT_EQ(Json::parse(metrics_line(m))["skipped_positions"], Json::parse("[[5,9],[70,90]]"));
}

TEST(Metrics, EmptyMapsAreObjects) {
  const Json json = Json::parse(metrics_line(StepMetrics{}));
  EXPECT_TRUE(json["communication"].is_object());
  EXPECT_TRUE(json["seconds_by_part"].is_object());
}

TEST(Metrics, DoublesComeBackBitForBit) {
  StepMetrics m = some_step();
  m.loss = std::nextafter(2.0, 3.0);
  EXPECT_EQ(Json::parse(metrics_line(m))["loss"].get<double>(), m.loss);
}

TEST(Metrics, NotFiniteIsValidJson) {
  StepMetrics m = some_step();
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.gradient_norm = std::numeric_limits<double>::infinity();
  m.tokens_per_second = -std::numeric_limits<double>::infinity();
  m.communication["dp"].seconds = m.loss;
  m.seconds_by_part["matmul"] = m.gradient_norm;
  const Json json = Json::parse(metrics_line(m));
  EXPECT_EQ(json["loss"], "nan");
  EXPECT_EQ(json["gradient_norm"], "inf");
  EXPECT_EQ(json["tokens_per_second"], "-inf");
  EXPECT_EQ(json["communication"]["dp"]["seconds"], "nan");
  EXPECT_EQ(json["seconds_by_part"]["matmul"], "inf");
}

TEST(Metrics, RunLineAddsUpMemoryAndTakesAnyText) {
  RunRecord r;
  r.deck_path = "a\"b\nc</script>";
  r.hosts = {"node1", "\xff\xfe"};
  r.grid = {{"pp", 1}, {"dp", 2}};
  r.predicted_memory = {{"parameters", 100}, {"activations", 20}, {"parameters", 3}};
  const std::string line = metrics_line(r);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = Json::parse(line);
  EXPECT_EQ(json["kind"], "run");
  EXPECT_EQ(json["deck_path"], r.deck_path);
  EXPECT_EQ(json["hosts"][1], "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(json["grid"]["dp"], 2);
  EXPECT_EQ(json["predicted_memory"]["parameters"], 103);
  EXPECT_EQ(json["predicted_memory_bytes"], 123);
  EXPECT_EQ(json["started"].get<std::string>().size(), 20u);  // 2026-01-31T12:00:00Z
  r.started = "then";
  EXPECT_EQ(Json::parse(metrics_line(r))["started"], "then");
}

TEST(Metrics, EndLine) {
  EndRecord e;
  e.reason = "finished";
  EXPECT_TRUE(Json::parse(metrics_line(e))["validation_loss"].is_null());
  e.validation_loss = 1.5;
  EXPECT_EQ(Json::parse(metrics_line(e))["validation_loss"], 1.5);
  EXPECT_TRUE(Json::parse(metrics_line(e))["parameter_hash"].is_null());
  e.parameter_hash = 0x1full;
  EXPECT_EQ(Json::parse(metrics_line(e))["parameter_hash"], "000000000000001f");
}

TEST(Metrics, EndLineTellsHowTheTimeWasSpent) {
  EndRecord e;
  EXPECT_EQ(Json::parse(metrics_line(e))["attempts"], 1);
  e.attempts = 3;
  e.effective_time_ratio = 0.75;
  e.checkpoints = 4;
  e.checkpoint_seconds = 2.5;
  e.checkpoint_stall_seconds = 0.5;
  const Json json = Json::parse(metrics_line(e));
  EXPECT_EQ(json["attempts"], 3);
  EXPECT_EQ(json["effective_time_ratio"], 0.75);
  EXPECT_EQ(json["checkpoints"], 4);
  EXPECT_EQ(json["checkpoint_seconds"], 2.5);
  EXPECT_EQ(json["checkpoint_stall_seconds"], 0.5);
}

TEST(Metrics, CheckpointLine) {
  const Json json =
      Json::parse(metrics_line(CheckpointMetrics{10, 2.5, 0.25, 4096, "asynchronous", "a\xff"}));
  EXPECT_EQ(json, (Json{{"kind", "checkpoint"},
                        {"step", 10},
                        {"seconds", 2.5},
                        {"stall_seconds", 0.25},
                        {"bytes", 4096},
                        {"mode", "asynchronous"},
                        {"path", "a\xEF\xBF\xBD"}}));
}

TEST(Metrics, EachLineIsThereAtOnce) {
  const std::string path = temporary("flush");
  MetricsWriter writer(path, MetricsMode::truncate);
  writer.write(some_step());
  EXPECT_EQ(lines_of(path).size(), 1u);
  writer.write(ValidationMetrics{7, 2.25, 100});
  ASSERT_EQ(lines_of(path).size(), 2u);
  EXPECT_EQ(Json::parse(lines_of(path)[1])["loss"], 2.25);
}

TEST(Metrics, AppendEndsAHalfLine) {
  const std::string path = temporary("append");
  std::ofstream(path) << "{\"kind\":\"step\",\"step\":1}\n{\"kind\":\"st";
  MetricsWriter(path, MetricsMode::append).write(some_step());
  auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], "{\"kind\":\"st");
  EXPECT_EQ(Json::parse(lines[2])["step"], 7);

  MetricsWriter(path, MetricsMode::append).write(some_step());  // now there is no half line
  lines = lines_of(path);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(Json::parse(lines[3])["step"], 7);

  MetricsWriter(path, MetricsMode::truncate).write(some_step());
  EXPECT_EQ(lines_of(path).size(), 1u);
}

TEST(Metrics, AppendToNothingStartsWithARecord) {
  const std::string path = temporary("new");
  MetricsWriter(path, MetricsMode::append).write(some_step());
  ASSERT_EQ(lines_of(path).size(), 1u);
}

TEST(Metrics, FullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  MetricsWriter writer("/dev/full", MetricsMode::truncate);
  try {
    writer.write(some_step());
    FAIL() << "nothing was thrown";
  } catch (const DataError& e) {
    EXPECT_NE(std::string(e.what()).find("/dev/full cannot be written (No space left"),
              std::string::npos)
        << e.what();
  }
}

TEST(Metrics, NoFolderIsAnError) {
  EXPECT_THROW(MetricsWriter("/nowhere/at/all/metrics.jsonl", MetricsMode::truncate), DataError);
}

}  // namespace
}  // namespace espalier
