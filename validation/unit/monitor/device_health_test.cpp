// SPDX-License-Identifier: Apache-2.0
// Health of devices, against a management library whose numbers are known.
#include "monitor/device_health.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "monitor/metrics.hpp"

namespace espalier {
namespace {

using N = HealthNumber;
constexpr const char* kBus = "0000:1b:00.0";

class DeviceHealthTest : public testing::Test {
 protected:
  ~DeviceHealthTest() override { unsetenv("ESPALIER_FAKE_NVML"); }
  void fail(const char* what) { setenv("ESPALIER_FAKE_NVML", what, 1); }
  const std::string library_ = ESPALIER_FAKE_NVML_LIBRARY;
};

TEST_F(DeviceHealthTest, GivesEveryNumber) {
  const DeviceHealth health(kBus, library_);
  ASSERT_EQ(health.why_not(), "");
  const HealthSample s = health.sample();
  EXPECT_EQ(s[N::utilisation], 97);
  EXPECT_EQ(s[N::memory_used], 120000000000);
  EXPECT_EQ(s[N::temperature], 71);
  EXPECT_EQ(s[N::sm_clock], 1755);
  EXPECT_EQ(s[N::sm_clock_limit], 1980);
  EXPECT_EQ(s[N::memory_clock], 2619);
  EXPECT_EQ(s[N::memory_clock_limit], 2619);
  EXPECT_EQ(s[N::power], 642500);
  EXPECT_EQ(s[N::corrected_errors], 5);
  EXPECT_EQ(s[N::uncorrected_errors], 2);
  EXPECT_EQ(s[N::throttle], 0x44);
  EXPECT_FALSE(s.is_empty());
}

TEST_F(DeviceHealthTest, LeavesOutWhatIsNotSupported) {
  fail("power,errors");
  const DeviceHealth health(kBus, library_);
  const HealthSample s = health.sample();
  EXPECT_EQ(s[N::power], -1);
  EXPECT_EQ(s[N::corrected_errors], -1);
  EXPECT_EQ(s[N::uncorrected_errors], -1);
  EXPECT_EQ(s[N::temperature], 71);
  fail("not_supported");
  EXPECT_TRUE(health.sample().is_empty());
}

TEST_F(DeviceHealthTest, SaysWhyThereAreNoNumbers) {
  EXPECT_EQ(DeviceHealth("", library_).why_not(), "there is no device");
  EXPECT_EQ(DeviceHealth(kBus, "libno-such-library.so.1").why_not(),
            "libno-such-library.so.1 cannot be loaded");
  EXPECT_NE(DeviceHealth("0000:ff:00.0", library_)
                .why_not()
                .find("does not know the device 0000:ff:00.0 (Not Found)"),
            std::string::npos);
  fail("no_driver");
  const DeviceHealth health(kBus, library_);
  EXPECT_NE(health.why_not().find("cannot start (Driver Not Loaded)"), std::string::npos);
  EXPECT_TRUE(health.sample().is_empty());
}

TEST_F(DeviceHealthTest, FindsTheLibraryThatTheEnvironmentNames) {
  setenv("ESPALIER_NVML", library_.c_str(), 1);
  const DeviceHealth health(kBus);
  unsetenv("ESPALIER_NVML");
  EXPECT_EQ(health.why_not(), "");
  EXPECT_EQ(health.sample()[N::temperature], 71);
}

// Between two steps the device is idle. Processor time, so that a busy machine does not count.
TEST_F(DeviceHealthTest, AsksInLessThanAMillisecond) {
  const DeviceHealth health(kBus, library_);
  const std::clock_t start = std::clock();
  constexpr int kTimes = 1000;
  for (int i = 0; i < kTimes; ++i) ASSERT_FALSE(health.sample().is_empty());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kTimes;
  RecordProperty("microseconds_a_sample", std::to_string(1e6 * seconds));
  EXPECT_LT(seconds, 1e-3);
}

TEST(ThrottleReasons, AreWordsForWhatSlowsTheClocks) {
  EXPECT_TRUE(throttle_reasons(-1).empty());
  EXPECT_TRUE(throttle_reasons(0x103).empty());  // idle, set by an application, display
  EXPECT_EQ(
      throttle_reasons(0xfc),
      (std::vector<std::string>{"power cap", "hardware slowdown", "sync boost",
                                "temperature (driver)", "temperature (hardware)", "power brake"}));
}

std::vector<HealthSample> three_ranks() {
  std::vector<HealthSample> samples(4);  // rank 2 tells nothing
  const auto set = [](HealthSample& s, int64_t busy, int64_t heat, int64_t clock, int64_t limit,
                      int64_t corrected, int64_t bits) {
    s[N::utilisation] = busy;
    s[N::temperature] = heat;
    s[N::sm_clock] = clock;
    s[N::sm_clock_limit] = limit;
    s[N::corrected_errors] = corrected;
    s[N::throttle] = bits;
  };
  set(samples[0], 99, 60, 1980, 1980, 1, 0);
  set(samples[1], 95, 83, 1400, 1980, 0, 0x40);
  set(samples[3], 98, 83, 1410, 1830, 7, 0x44);
  return samples;
}

TEST(HealthSummary, NamesTheWorstAndItsRank) {
  const HealthSummary s = summarise_health(20, three_ranks());
  EXPECT_EQ(s.devices, 3);
  EXPECT_EQ(s.utilisation->value, 95);
  EXPECT_EQ(s.utilisation->rank, 1);
  EXPECT_EQ(s.temperature->value, 83);
  EXPECT_EQ(s.temperature->rank, 1);  // the first of equal ones
  EXPECT_EQ(s.sm_clock->value, 1400);
  EXPECT_EQ(s.sm_clock->limit, 1980);
  EXPECT_EQ(s.corrected_errors->value, 8);
  EXPECT_EQ(s.corrected_errors->rank, 3);
  EXPECT_FALSE(s.uncorrected_errors);
  EXPECT_FALSE(s.power);
  ASSERT_EQ(s.throttle.size(), 2U);
  EXPECT_EQ(s.throttle[0].reason, "power cap");
  EXPECT_EQ(s.throttle[0].ranks, 1);
  EXPECT_EQ(s.throttle[0].first_rank, 3);
  EXPECT_EQ(s.throttle[1].reason, "temperature (hardware)");
  EXPECT_EQ(s.throttle[1].ranks, 2);
  EXPECT_EQ(s.throttle[1].first_rank, 1);
}

TEST(HealthSummary, IsALineOfJson) {
  std::vector<HealthSample> samples = three_ranks();
  samples[0][N::power] = 642500;
  const auto line = nlohmann::json::parse(metrics_line(summarise_health(20, samples)));
  EXPECT_EQ(line["kind"], "device");
  EXPECT_EQ(line["step"], 20);
  EXPECT_EQ(line["devices"], 3);
  EXPECT_EQ(line["sm_clock_mhz"]["least"], 1400);
  EXPECT_EQ(line["sm_clock_mhz"]["limit"], 1980);
  EXPECT_EQ(line["power_watts"]["most"], 642.5);
  EXPECT_EQ(line["corrected_ecc_errors"]["sum"], 8);
  EXPECT_EQ(line["throttle"][1]["reason"], "temperature (hardware)");
  EXPECT_FALSE(line.contains("uncorrected_ecc_errors"));
  EXPECT_FALSE(line.contains("memory_used_bytes"));
}

TEST(HealthWarnings, SayEachKindOnce) {
  const auto name = [](int rank) { return "rank " + std::to_string(rank) + " on n1"; };
  HealthWarnings warnings;
  HealthSample fine;
  fine[N::throttle] = 0;
  fine[N::uncorrected_errors] = 0;
  EXPECT_TRUE(warnings.judge(summarise_health(1, {fine}), name).empty());
  HealthSample hot = fine;
  hot[N::throttle] = 0x40;
  const auto first = warnings.judge(summarise_health(2, {fine, hot, hot}), name);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_NE(first[0].find("step 2: the GPU of rank 1 on n1 and of 1 more runs below its clock: "
                          "temperature (hardware)"),
            std::string::npos)
      << first[0];
  EXPECT_TRUE(warnings.judge(summarise_health(3, {hot, hot, hot}), name).empty());
  HealthSample broken = hot;
  broken[N::uncorrected_errors] = 4;
  const auto second = warnings.judge(summarise_health(4, {hot, broken, hot}), name);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_NE(second[0].find("4 uncorrected ECC errors"), std::string::npos) << second[0];
  EXPECT_NE(second[0].find("rank 1 on n1"), std::string::npos);
  EXPECT_TRUE(warnings.judge(summarise_health(5, {hot, broken, hot}), name).empty());
}

}  // namespace
}  // namespace espalier
