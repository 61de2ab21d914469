// SPDX-License-Identifier: Apache-2.0
#include "core/units.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace espalier {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes(4096.0 * 1024 * 1024 * 1024 * 1024 * 1024), "4096.00 PiB");
}

TEST(Units, Counts) {
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(0.5), "0.50");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1.00 K");
  EXPECT_EQ(format_count(124439808), "124.44 M");
  EXPECT_EQ(format_count(70553706496.0), "70.55 B");
  EXPECT_EQ(format_count(15e12), "15.00 T");
}

TEST(Units, NearTheNextSuffixTheNumberStaysBelowIt) {
  EXPECT_EQ(format_bytes(1024.0 * 1024 - 1), "1.00 MiB");
  EXPECT_EQ(format_count(999'999), "1.00 M");
}

TEST(Units, Durations) {
  EXPECT_EQ(format_duration(0), "0 us");
  EXPECT_EQ(format_duration(25e-6), "25 us");
  EXPECT_EQ(format_duration(0.0123), "12.3 ms");
  EXPECT_EQ(format_duration(41.0), "41.0 s");
  EXPECT_EQ(format_duration(60.0), "1 min 00 s");
  EXPECT_EQ(format_duration(125.4), "2 min 05 s");
  EXPECT_EQ(format_duration(7380.0), "2 h 03 min");
  EXPECT_EQ(format_duration(86400.0 * 3 + 3600 * 4), "3 d 04 h");
}

TEST(Units, DurationsRoundIntoTheNextUnit) {
  EXPECT_EQ(format_duration(0.0009999), "1.0 ms");
  EXPECT_EQ(format_duration(0.99999), "1.0 s");
  EXPECT_EQ(format_duration(59.99), "1 min 00 s");
  EXPECT_EQ(format_duration(3599.9), "1 h 00 min");
}

TEST(Units, DurationsWithoutAValue) {
  EXPECT_EQ(format_duration(-1.0), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "-");
}

}  // namespace
}  // namespace espalier
