// SPDX-License-Identifier: Apache-2.0
// Memory as the kernel tells it: parsing, and that the numbers follow what the process does.
#include "monitor/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "core/error.hpp"

namespace espalier {
namespace {

const char* const kStatus =
    "Name:\tespalier\nVmPeak:\t  999999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
    "RssAnon:\t     512 kB\nRssFile:\t     384 kB\nRssShmem:\t     128 kB\nThreads:\t1\n";

std::string error_of(const std::string& status) {
  try {
    parse_resident_memory(status, "status");
  } catch (const LaunchError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Memory, ParsesEveryField) {
  const ResidentMemory m = parse_resident_memory(kStatus, "status");
  EXPECT_EQ(m.total, 1024 * 1024);
  EXPECT_EQ(m.peak, 2048 * 1024);
  EXPECT_EQ(m.anonymous, 512 * 1024);
  EXPECT_EQ(m.file, 384 * 1024);
  EXPECT_EQ(m.shared, 128 * 1024);
}

TEST(Memory, ParsesAFieldOnTheFirstLine) {
  const std::string first = "VmRSS:\t 7 kB\n";
  EXPECT_EQ(parse_resident_memory(first + std::string(kStatus), "status").total, 7 * 1024);
}

TEST(Memory, NamesTheMissingLine) {
  std::string status = kStatus;
  status.replace(status.find("RssFile"), 7, "RssElse");
  EXPECT_NE(error_of(status).find("status has no line RssFile"), std::string::npos)
      << error_of(status);
}

TEST(Memory, RefusesAnotherUnit) {
  std::string status = kStatus;
  status.replace(status.find("1024 kB"), 7, "1024 MB");
  EXPECT_NE(error_of(status).find("\"VmRSS: 1024 MB\""), std::string::npos) << error_of(status);
  status.replace(status.find("1024 MB"), 7, "many kB");
  EXPECT_NE(error_of(status).find("not a number of kB"), std::string::npos) << error_of(status);
}

TEST(Memory, FollowsWhatIsAllocated) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  constexpr int64_t kSlack = int64_t{8} << 20;  // what else the test program may touch meanwhile
  const ResidentMemory before = resident_memory();
  EXPECT_NEAR(static_cast<double>(before.total),
              static_cast<double>(before.anonymous + before.file + before.shared), 1 << 20);
  EXPECT_GE(before.peak + (1 << 20), before.total);
  // Pages straight from the system: an allocator, or a sanitizer in it, might keep them when freed.
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const int64_t grown = resident_memory().anonymous - before.anonymous;
  ASSERT_EQ(munmap(block, kBytes), 0);
  EXPECT_GT(grown, kBytes - kSlack);
  EXPECT_LT(grown, kBytes + kSlack);
  EXPECT_LT(resident_bytes(), before.total + kSlack);
  EXPECT_GT(peak_resident_bytes(), before.total + kBytes - kSlack);
  if (reset_peak() == PeakReset::done)
    EXPECT_LT(peak_resident_bytes(), before.total + kBytes - kSlack);
  else
    GTEST_SKIP() << "the system does not let the peak be reset";
}

}  // namespace
}  // namespace espalier
