// SPDX-License-Identifier: Apache-2.0
// Plain MPI-IO files and the hints that go with them.
#include "grid/plain_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "grid/io_hints.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

const Comm& world() {
  return test_session().world();
}

/// The same path on all ranks; removed by rank 0 when all have left it.
class SharedPath {
 public:
  SharedPath() {
    int64_t process = getpid();
    world().broadcast(&process, 1, 0);
    path_ = "/tmp/espalier-plain-" + std::to_string(process);
  }
  ~SharedPath() {
    world().barrier();
    if (world().rank() == 0) ::unlink(path_.c_str());
  }
  const std::string& get() const { return path_; }

 private:
  std::string path_;
};

/// Rank r holds r + 1 thousand numbers, behind those of the ranks before it.
void check_round_trip(bool together) {
  const SharedPath path;
  const int64_t rank = world().rank(), count = 1000 * (rank + 1);
  const int64_t first = 1000 * rank * (rank + 1) / 2, bytes = count * 4;
  std::vector<int32_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), static_cast<int32_t>(first));
  for (const int64_t extra : {500, 0}) {  // the shorter one leaves nothing of the longer one
    PlainFile file(world(), path.get(), PlainFile::Access::write, {"romio_cb_write=enable"});
    if (rank == 0 && extra > 0) file.write_at(10000000, values.data(), extra);
    if (together)
      file.write_at_all(first * 4, values.data(), bytes);
    else
      file.write_at(first * 4, values.data(), bytes);
    file.sync();
    file.close();
  }
  // Read what the next rank wrote.
  const int64_t next = (rank + 1) % world().size(), next_count = 1000 * (next + 1);
  const int64_t next_first = 1000 * next * (next + 1) / 2;
  std::vector<int32_t> read(static_cast<size_t>(next_count), -1);
  PlainFile file(world(), path.get(), PlainFile::Access::read);
  if (together)
    file.read_at_all(next_first * 4, read.data(), next_count * 4);
  else
    file.read_at(next_first * 4, read.data(), next_count * 4);
  for (int64_t i = 0; i < next_count; ++i)
    ASSERT_EQ(read[static_cast<size_t>(i)], static_cast<int32_t>(next_first + i));
  EXPECT_THROW(file.read_at(9999999, read.data(), 100), InternalError);
}

TEST(PlainFile, ReturnsWhatEachRankWroteAlone) {
  check_round_trip(false);
}
TEST(PlainFile, ReturnsWhatAllRanksWroteTogether) {
  check_round_trip(true);
}

TEST(PlainFile, NamesAFileThatIsMissing) {
  EXPECT_THROW(PlainFile(world(), "/nowhere/at/all", PlainFile::Access::read), LaunchError);
}

TEST(IoHints, HoldEveryKeyAndValue) {
  EXPECT_EQ(IoHints({}).handle(), MPI_INFO_NULL);
  const IoHints hints({"striping_factor=8", "cb_config_list=*:2", "a=b=c"});
  const auto value = [&](const char* key) {
    char text[64] = "";
    int found = 0;
    MPI_Info_get(hints.handle(), key, 63, text, &found);
    return std::string(text);
  };
  EXPECT_EQ(value("striping_factor"), "8");
  EXPECT_EQ(value("cb_config_list"), "*:2");
  EXPECT_EQ(value("a"), "b=c");
  for (const char* bad : {"", "key", "=value", "key="})
    EXPECT_THROW(IoHints({std::string(bad)}), InternalError) << bad;
}

}  // namespace
}  // namespace espalier
