// SPDX-License-Identifier: Apache-2.0
// A run folder for tests, written line by line.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace espalier {

class RunFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ =
        testing::TempDir() + "/espalier_report_" + test->test_suite_name() + "_" + test->name();
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void add(const std::string& file, const std::string& text) const {
    std::ofstream(directory_ + "/" + file, std::ios::app) << text;
  }
  void add_line(const nlohmann::json& record) const { add("metrics.jsonl", record.dump() + "\n"); }
  void add_step(int64_t step, double loss) const {
    add_line({{"kind", "step"},
              {"step", step},
              {"loss", loss},
              {"step_seconds", 2.0},
              {"tokens_per_second", 100.0 + static_cast<double>(step)},
              {"mfu", 0.5},
              {"data_wait_seconds", 0.02},
              {"seconds_by_part", {{"matmul", 1.5}, {"attention", 0.5}}},
              {"stage_seconds", {0.5, 1.5}},
              {"pipeline_bubble", 0.25},
              {"communication", {{"dp", {{"bytes", 8}, {"exposed_seconds", 0.1}}}}},
              {"peak_memory_bytes", 1048576 * step}});
  }
  void add_validation(int64_t step, double loss) const {
    add_line({{"kind", "validation"}, {"step", step}, {"loss", loss}});
  }
  std::string read(const std::string& file) const {
    std::ifstream in(directory_ + "/" + file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::string directory_;
};

}  // namespace espalier
