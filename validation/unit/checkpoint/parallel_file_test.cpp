// SPDX-License-Identifier: Apache-2.0
// Tensor files written and read by several ranks: the bytes are those that one process alone
// writes, every rank reads what it asks for, and an error reaches all ranks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "checkpoint/model_file.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "shared_folder.hpp"

namespace espalier {
namespace {

/// Of every slab the rows that this rank writes: cut evenly, the last ones with fewer or none; a
/// tensor in three goes to one rank alone.
TensorSlabs rows_of_this_rank(const TensorSlabs& whole, const Comm* ranks) {
  if (ranks == nullptr) return whole;
  TensorSlabs own;
  for (size_t k = 0; k < whole.size(); ++k) {
    TensorSlab slab = whole[k];
    if (k % 3 == 1) {
      if (static_cast<int>(k) % ranks->size() == ranks->rank()) own.push_back(slab);
      continue;
    }
    const Range rows = cut_evenly(slab.extent[0], ranks->size(), ranks->rank());
    if (rows.count == 0) continue;
    const int64_t width = slab.extent.size() > 1 ? slab.extent[1] : 1;
    slab.data = static_cast<const float*>(slab.data) + rows.first * width;
    slab.offset[0] = rows.first;
    slab.extent[0] = rows.count;
    own.push_back(slab);
  }
  return own;
}

/// Many tensors, so that the headers need continuation; sizes that no rank count divides.
void write_content(const std::string& path, const Comm* ranks) {
  std::vector<TensorRow> rows{{"embedding.token.weight", {1031, 67}, 0}};
  int64_t offset = 1031 * 67;
  for (int k = 0; k < 200; ++k) {
    rows.push_back({"layers." + std::to_string(k) + ".weight", {k % 7 + 1, k % 5 + 3}, offset});
    offset += (k % 7 + 1) * (k % 5 + 3);
  }
  std::vector<float> flat(static_cast<size_t>(offset));
  for (size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(i) * 0.37f;
  ModelInfo info;
  info.program_version = "0.1.0";
  info.deck = std::string(90000, '#');
  info.step = 12;
  write_model(path, ranks, rows, StoredType::fp32,
              rows_of_this_rank(whole_slabs(rows, flat.data()), ranks), info);
}

TEST(ParallelFile, BytesDoNotDependOnTheRanks) {
  const SharedFolder folder;
  write_content(folder.file("parallel.h5"), &world());
  if (world().rank() == 0) {
    write_content(folder.file("serial.h5"), nullptr);
    const std::string serial = file_bytes(folder.file("serial.h5"));
    EXPECT_GT(serial.size(), size_t{300000});
    EXPECT_TRUE(serial == file_bytes(folder.file("parallel.h5")));
    EXPECT_FALSE(std::filesystem::exists(folder.file("parallel.h5.part")));
  }
}

/// Columns first, first + 1, ... of a [rows, width] dataset whose elements are their own index.
std::vector<int32_t> columns(int64_t rows, int64_t width, int64_t first, int64_t count) {
  std::vector<int32_t> values;
  for (int64_t s = 0; s < rows; ++s)
    for (int64_t c = first; c < first + count; ++c)
      values.push_back(static_cast<int32_t>(s * width + c));
  return values;
}

TEST(ParallelFile, SlabsByColumnsAreReadByRows) {
  const SharedFolder folder;
  const int64_t rank = world().rank(), size = world().size(), rows = 13, width = 12;
  // The last rank writes nothing if there are several; 12 columns divide over 1 and 3 writers.
  const int64_t writers = size > 1 ? size - 1 : 1, own = rank < writers ? width / writers : 0;
  {
    TensorFileWriter out(folder.file("t.h5"), &world());
    out.create_dataset("t", {rows, width}, StoredType::int32);
    const std::vector<int32_t> values = columns(rows, width, rank * own, own);
    out.write_slab("t", {0, rank * own}, {rows, own}, values.data());
    out.close();
  }
  if (rank == 0) {
    const std::vector<int32_t> values = columns(rows, width, 0, width);
    TensorFileWriter out(folder.file("serial.h5"), nullptr);
    out.write_tensor("t", {rows, width}, values.data());
    out.close();
    EXPECT_TRUE(file_bytes(folder.file("t.h5")) == file_bytes(folder.file("serial.h5")));
  }
  TensorFileReader in(folder.file("t.h5"), &world());
  const int64_t first = rows * rank / size, last = rows * (rank + 1) / size;
  std::vector<int32_t> read(static_cast<size_t>((last - first) * width));
  in.read_slab("t", StoredType::int32, {first, 0}, {last - first, width}, read.data());
  for (size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(read[i], static_cast<int32_t>(first * width) + static_cast<int32_t>(i));
  EXPECT_EQ(in.read_values<int32_t>("t"), columns(rows, width, 0, width));
}

TEST(ParallelFile, EveryRankHearsOfABadFile) {
  const SharedFolder folder;
  if (world().rank() == 0) write_bytes(folder.file("bad.h5"), std::string(5000, 'x'));
  world().barrier();
  for (const char* name : {"bad.h5", "none.h5"}) {
    const std::string message =
        message_of<DataError>([&] { TensorFileReader(folder.file(name), &world()); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(ParallelFile, EveryRankHearsOfAFullDiskAndTheOldFileStays) {
  const SharedFolder folder;
  const std::string path = folder.file("a.h5");
  if (world().rank() == 0) write_bytes(path, "the old one");
  world().barrier();
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 16, old_limit.rlim_max};  // writes beyond 64 KiB fail as on a full disk
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of<DataError>([&] { write_content(path, &world()); });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  uint64_t most = hash_name(message);
  world().all_reduce(&most, 1, ReduceOp::max);
  EXPECT_EQ(most, hash_name(message)) << "ranks report different errors";
  world().barrier();
  EXPECT_EQ(file_bytes(path), "the old one");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  world().barrier();
  write_content(path, &world());  // with space again, the same processes succeed
  EXPECT_EQ(read_model_info(path, &world()).step, 12);
}

}  // namespace
}  // namespace espalier
