// SPDX-License-Identifier: Apache-2.0
// Reading of run folders: whole, cut off, damaged, resumed; and the headline numbers.
#include "report/run_data.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "report/headline.hpp"
#include "run_folder.hpp"

namespace espalier {
namespace {

using Steps = std::vector<int64_t>;

TEST_F(RunFolder, ColumnsAndHeadline) {
  add_line({{"kind", "run"}, {"total_steps", 4}, {"predicted_memory_bytes", 5 * 1048576}});
  for (int64_t s = 1; s <= 4; ++s) add_step(s, 5.0 - static_cast<double>(s));
  add_validation(2, 2.5);
  add_validation(4, 2.75);
  add_line({{"kind", "end"}, {"reason", "finished"}, {"peak_memory_bytes", 6 * 1048576}});
  add("baseline.json",
      R"({"unigram": {"nats_per_token": 3.25}, "bigram": {"nats_per_token": 2.5}})");
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.steps, (Steps{1, 2, 3, 4}));
  EXPECT_EQ(data.column("loss"), (Series{4, 3, 2, 1}));
  EXPECT_EQ(data.column("part/matmul"), Series(4, 1.5));
  EXPECT_EQ(data.column("exposed/dp"), Series(4, 0.1));
  EXPECT_TRUE(std::isnan(data.column("no such field")[3]));
  const Headline h = headline(data);
  EXPECT_EQ(h.steps, 4);
  EXPECT_EQ(h.total_steps, 4);
  EXPECT_EQ(h.state, "finished");
  EXPECT_EQ(h.training_loss, 1.0);
  EXPECT_EQ(h.validation_loss, 2.75);
  EXPECT_EQ(h.best_validation_loss, 2.5);
  EXPECT_EQ(h.best_validation_step, 2);
  EXPECT_EQ(h.unigram_nats, 3.25);
  EXPECT_EQ(h.bigram_nats, 2.5);
  EXPECT_EQ(h.tokens_per_second, 103.0);  // of 102, 103, 104: the first step does not count
  EXPECT_EQ(h.mfu, 0.5);
  EXPECT_EQ(h.peak_memory_bytes, 6 * 1048576);
  EXPECT_EQ(h.predicted_memory_bytes, 5 * 1048576);
  const auto json = nlohmann::json::parse(headline_json(h));
  EXPECT_EQ(json["validation_loss"], 2.75);
  EXPECT_EQ(headline_text(h),
            "steps            4 of 4 (finished)\n"
            "training loss    1.0000 (smoothed " +
                fmt::format("{:.4f}", *h.training_loss_smoothed) +
                ")\n"
                "validation loss  2.7500 (best 2.5000 at step 2)\n"
                "unigram model    3.2500\n"
                "bigram model     2.5000\n"
                "throughput       103 tokens/s\n"
                "MFU              50.0 %\n"
                "peak memory      6.00 MiB (predicted 5.00 MiB)");
}

TEST_F(RunFolder, CheckpointsAndEffectiveTime) {
  add_step(1, 4.0);
  add_step(2, 3.0);
  add_line({{"kind", "checkpoint"}, {"step", 1}, {"seconds", 5.0}, {"stall_seconds", 0.5}});
  add_line({{"kind", "checkpoint"}, {"step", 2}, {"seconds", 7.0}, {"stall_seconds", "nan"}});
  add_line({{"kind", "checkpoint"}, {"seconds", 7.0}});
  EXPECT_FALSE(headline(read_run(directory_)).effective_time_ratio);
  add_line({{"kind", "end"}, {"reason", "finished"}, {"effective_time_ratio", 0.875}});
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.notes.unknown_kinds, 0);
  EXPECT_EQ(data.notes.broken_lines, 1);  // the one without its step
  const Headline h = headline(data);
  EXPECT_EQ(h.checkpoints.count, 2);
  EXPECT_EQ(h.checkpoints.last_step, 2);
  EXPECT_EQ(h.checkpoints.seconds, 12.0);
  EXPECT_EQ(h.checkpoints.stall_seconds, 0.5);
  EXPECT_EQ(h.effective_time_ratio, 0.875);
  const std::string text = headline_text(h);
  EXPECT_NE(text.find("effective time   87.5 %"), std::string::npos) << text;
  EXPECT_NE(text.find("checkpoints      2, the last after step 2; "), std::string::npos) << text;
  const auto json = nlohmann::json::parse(headline_json(h));
  EXPECT_EQ(json["effective_time_ratio"], 0.875);
  EXPECT_EQ(json["checkpoints"], 2);
}

TEST_F(RunFolder, FlatBaselineKeys) {
  add_step(1, 1.0);
  add("baseline.json", R"({"unigram_nats": 3.25, "bigram_nats": 2.5})");
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.bigram_nats, 2.5);
  EXPECT_TRUE(data.side_file_faults.empty());
}

TEST_F(RunFolder, AbsentNumbersAreNull) {
  add_line({{"kind", "step"}, {"step", 1}, {"loss", "nan"}});
  const Headline h = headline(read_run(directory_));
  EXPECT_FALSE(h.training_loss || h.validation_loss || h.mfu || h.peak_memory_bytes);
  EXPECT_EQ(h.loss_not_finite, 1);
  EXPECT_TRUE(nlohmann::json::parse(headline_json(h))["training_loss"].is_null());
  EXPECT_EQ(headline_text(h), "steps            1 (no end recorded)\nloss not finite  1 steps");
}

TEST_F(RunFolder, NotFiniteValues) {
  add_line({{"kind", "step"}, {"step", 1}, {"loss", "nan"}, {"gradient_norm", "inf"}});
  add_line({{"kind", "step"}, {"step", 2}, {"loss", 2.0}, {"skipped", true}, {"mfu", "-inf"}});
  const RunData data = read_run(directory_);
  EXPECT_TRUE(std::isnan(data.column("loss")[0]));
  EXPECT_EQ(data.column("gradient_norm")[0], std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(data.column("gradient_norm")[1]));
  EXPECT_EQ(headline(data).loss_not_finite, 1);
  EXPECT_EQ(headline(data).skipped_steps, 1);
}

TEST_F(RunFolder, TruncatedLastLineIsSkipped) {
  add_step(1, 4.0);
  add("metrics.jsonl", "{\"kind\":\"step\",\"step\":2,\"loss\":3.");
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.steps, (Steps{1}));
  EXPECT_TRUE(data.notes.truncated_last_line);
  EXPECT_EQ(data.notes.broken_lines, 0);
}

TEST_F(RunFolder, WholeLastLineWithoutLineFeedCounts) {
  add_step(1, 4.0);
  add("metrics.jsonl", R"({"kind":"step","step":2,"loss":3.0})");
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.steps, (Steps{1, 2}));
  EXPECT_FALSE(data.notes.truncated_last_line);
}

TEST_F(RunFolder, BrokenLinesInTheMiddleAreCounted) {
  add_step(1, 4.0);
  add("metrics.jsonl", "{\"kind\":\"st\nnot json\n[1, 2]\n{\"step\": 5}\n{\"kind\":\"step\"}\n\n");
  add_line({{"kind", "step"}, {"step", "two"}});
  add_line({{"kind", "weather"}});
  add_step(2, 3.0);
  const RunData data = read_run(directory_);
  EXPECT_EQ(data.steps, (Steps{1, 2}));
  EXPECT_EQ(data.notes.broken_lines, 6);
  EXPECT_EQ(data.notes.first_broken_line, 2);
  EXPECT_EQ(data.notes.unknown_kinds, 1);
}

TEST_F(RunFolder, LaterRecordWins) {
  add_line({{"kind", "run"}, {"total_steps", 6}});
  for (int64_t s = 1; s <= 5; ++s) add_step(s, 10.0 + static_cast<double>(s));
  add_validation(2, 9.0);
  add_validation(5, 8.0);
  add("metrics.jsonl", "{\"kind\":\"st\n");
  add_line({{"kind", "run"}, {"total_steps", 8}});
  for (int64_t s = 3; s <= 4; ++s) add_step(s, 20.0 + static_cast<double>(s));
  add_validation(4, 7.0);
  const RunData data = read_run(directory_);
  // Step 5 and the validation after it belong to the line of the run that was given up.
  EXPECT_EQ(data.steps, (Steps{1, 2, 3, 4}));
  EXPECT_EQ(data.column("loss"), (Series{11, 12, 23, 24}));
  EXPECT_EQ(data.column("part/matmul").size(), 4u);
  EXPECT_EQ(data.validation_steps, (Steps{2, 4}));
  EXPECT_EQ(data.validation_losses, (Series{9, 7}));
  EXPECT_EQ(data.notes.superseded_steps, 3);
  EXPECT_EQ(data.notes.resumed_at, (Steps{3}));
  EXPECT_EQ(data.first_rows, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(headline(data).total_steps, 8);
}

TEST_F(RunFolder, EndOfAnEarlierRunIsForgotten) {
  add_line({{"kind", "run"}});
  add_step(1, 2.0);
  add_line({{"kind", "end"}, {"reason", "time limit"}});
  EXPECT_EQ(headline(read_run(directory_)).state, "time limit");
  add_line({{"kind", "run"}});
  add_step(2, 1.0);
  EXPECT_EQ(headline(read_run(directory_)).state, "no end recorded");
  EXPECT_EQ(read_run(directory_).notes.resumed_at, (Steps{2}));
}

TEST_F(RunFolder, Samples) {
  add_step(1, 1.0);
  add("samples.txt", "plain");
  add("samples.json", R"([{"prompt": "Once", "text": "upon"}, "bare", 3])");
  const auto samples = read_run(directory_).samples;
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[0].title, "Once");
  EXPECT_EQ(samples[0].text, "upon");
  EXPECT_EQ(samples[1].text, "bare");
  EXPECT_EQ(samples[2].text, "3");
  EXPECT_EQ(samples[3].text, "plain");
}

TEST_F(RunFolder, SideFilesThatAreNoUseAreNamed) {
  add_step(1, 1.0);
  add("samples.json", "[{");
  add("baseline.json", R"({"bigram": "low"})");
  const auto faults = read_run(directory_).side_file_faults;
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_NE(faults[0].find("baseline.json"), std::string::npos);
  EXPECT_NE(faults[1].find("samples.json is not JSON"), std::string::npos);
}

std::string error_of(const std::string& directory) {
  try {
    read_run(directory);
  } catch (const DataError& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(RunFolder, ErrorsSayWhatToDo) {
  EXPECT_EQ(error_of(directory_ + "/none"),
            directory_ +
                "/none is not a folder; name the folder of a run (run.directory of its "
                "deck)");
  EXPECT_NE(error_of(directory_).find("/metrics.jsonl cannot be read; name the folder of a run"),
            std::string::npos);
  add_line({{"kind", "run"}});
  EXPECT_NE(error_of(directory_).find("has no step record; let the run finish its first step"),
            std::string::npos);
  add("metrics.jsonl", "rubbish\n");
  EXPECT_NE(error_of(directory_).find("no step record (1 lines are not records)"),
            std::string::npos);
}

}  // namespace
}  // namespace espalier
